import assert from 'node:assert/strict'
import { kill } from 'node:process'
import { test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { Ledger } from './ledger.ts'
import { openPlace, owners, postgresPlace } from './place.ts'
import { apiKey, Program } from './program.ts'
import { Receiver } from './receiver.ts'

const size = 3
const settings = { SLUICE_PROCESSES: String(size), SLUICE_LEASE: '60s', SLUICE_METRICS_PUBLIC: 'true' }
const paths = Array.from({ length: 12 }, (_, i) => `/lane-${i}`)

interface Worker {
  readonly pid: number
  readonly state: string
}

test('several processes serve one address, share the lanes, count together, are started again and stop together', async (t) => {
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t)
  const ledger = new Ledger()
  const server = await Program.start(t, 'serve', place.store, settings)
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  const alive = async (): Promise<number[]> => {
    // A connection of its own: those of a process that is killed are reset.
    const headers = { authorization: `Bearer ${apiKey}`, connection: 'close' }
    const response = await fetch(`${server.api}/worker`, { headers }).catch(() => undefined)
    if (response === undefined) return []
    const { data } = (await response.json()) as { data: Worker[] }
    return data.filter(({ state }) => state === 'alive').map(({ pid }) => pid)
  }
  /** The value of a metric at each of several looks, each by a connection of its own, which another process may answer. */
  const counted = async (name: string): Promise<number[]> => {
    const looks = Array.from({ length: 2 * size }, async () => {
      const answer = await fetch(server.api.replace('/api/v1', '/metrics'), { headers: { connection: 'close' } })
      return Number(new RegExp(`^${name} (\\S+)`, 'm').exec(await answer.text())?.[1])
    })
    return Promise.all(looks)
  }

  await eventually('all deliver', async () => (await alive()).length === size)
  await eventually('one line names them', () => server.logged.includes(`"processes":${size}`))
  await client.createApplication('acme')
  for (const path of paths) await ledger.subscribe(client, receiver, 'acme', path)
  await eventually('each owns lanes', async () => {
    await ledger.publishAll(client, 'acme', 3)
    return new Set((await owners(place)).map(({ pid }) => pid)).size === size
  })
  await ledger.allDelivered(receiver)
  const accepted = () => ledger.accepted.length
  await eventually('every look at the metrics counts the messages of all', async () =>
    (await counted('sluice_messages_accepted_total')).every((value) => value === accepted()),
  )

  const [victim] = await alive()
  assert.ok(victim !== undefined && victim !== server.pid)
  kill(victim, 'SIGKILL')
  await eventually('another takes its place', async () => {
    const pids = await alive()
    return pids.length === size && !pids.includes(victim)
  })
  await ledger.publishAll(client, 'acme', 3)
  await ledger.allDelivered(receiver)
  await eventually('what the one that ended had counted still counts', async () =>
    (await counted('sluice_messages_accepted_total')).every((value) => value === accepted()),
  )
  assert.match(server.logged, new RegExp(`"pid":${victim}.*a process ended; another starts in 1 s`))

  server.terminate()
  assert.deepEqual(await server.exited, { code: 0, signal: null })
  assert.deepEqual(await place.query('select id from worker where ended_at is null'), [])
  ledger.audit(receiver)
})

test('several processes on a SQLite file are refused, and `auto` is one', async (t) => {
  const { store } = await openPlace(t, 'sqlite')
  const refused = await Program.run(t, 'serve', store, { SLUICE_PROCESSES: '2' })
  assert.equal(refused.exit.code, 2)
  assert.match(refused.logged, /Several processes need a Postgres store: one process owns a SQLite file\./)
  const server = await Program.start(t, 'serve', store, { SLUICE_PROCESSES: 'auto' })
  server.terminate()
  assert.deepEqual(await server.exited, { code: 0, signal: null })
})
