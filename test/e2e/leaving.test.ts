import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { assertNoDuplicates, Ledger } from './ledger.ts'
import { Load } from './load.ts'
import { owners, postgresPlace } from './place.ts'
import { longLease, Program } from './program.ts'
import { Receiver } from './receiver.ts'

/** Nothing here may wait for a lease, or end an attempt early. */
const settings = { ...longLease, SLUICE_SHUTDOWN_LIMIT: '5m' }
const paths = Array.from({ length: 8 }, (_, i) => `/lane-${i}`)

test('the lanes of a worker that stops or dies go on at once: but for an attempt under way, and long before its lease ends', async (t) => {
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t)
  const ledger = new Ledger()
  const server = await Program.start(t, 'serve', place.store, settings)
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  await client.createApplication('acme')
  for (const path of paths) await ledger.subscribe(client, receiver, 'acme', path, { timeoutMs: 300_000 })
  const load = new Load(t, ledger, client, 'acme', 30)
  const lanesOf = async (pid: number) =>
    (await owners(place)).filter((each) => each.pid === pid).map(({ path }) => path)
  /** Waits until each of these lanes has got some more. */
  const goOn = (which: readonly string[]) => {
    const before = new Map(which.map((path) => [path, receiver.at(path).length]))
    return receiver.until('deliveries go on', () =>
      which.every((path) => receiver.at(path).length > (before.get(path) ?? 0) + 10),
    )
  }

  const stopped = await Program.start(t, 'worker', place.store, settings)
  const answer = Promise.withResolvers<{ readonly status: number }>()
  // A lane may go to the server meanwhile, to share the lanes evenly; one with an attempt under way stays.
  const slow = await eventually('the worker has lanes, and an attempt of one of them under way', async () => {
    const [path, ...others] = await lanesOf(stopped.pid)
    if (path === undefined || others.length === 0) return undefined
    const opened = Promise.withResolvers<void>()
    receiver.behave(path, () => {
      opened.resolve()
      return answer.promise
    })
    await opened.promise
    if ((await lanesOf(stopped.pid)).includes(path)) return path
    receiver.behave(path, () => ({ status: 200 }))
    return undefined
  })
  stopped.terminate()
  const others = paths.filter((path) => path !== slow)
  await eventually('all other lanes are at the server', async () => {
    const lanes = await lanesOf(server.pid)
    return others.every((path) => lanes.includes(path))
  })
  await goOn(others)
  assert.ok(stopped.isRunning, 'it waits for its attempt')
  assert.deepEqual(await lanesOf(stopped.pid), [slow])
  answer.resolve({ status: 200 })
  assert.deepEqual(await stopped.exited, { code: 0, signal: null })
  await goOn(paths)
  assertNoDuplicates(receiver)

  const killed = await Program.start(t, 'worker', place.store, settings)
  await eventually('the next worker has lanes', async () => (await lanesOf(killed.pid)).length > 1)
  await killed.kill()
  await goOn(paths)
  assert.match(server.logged, new RegExp(`pid ${killed.pid}\\b.* died: its connection to the database ended`))
  await load.stop()
  await ledger.allDelivered(receiver)
  ledger.audit(receiver)
})
