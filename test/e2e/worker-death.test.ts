import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { postgresPlace } from './place.ts'
import { apiKey, Program } from './program.ts'
import { Receiver } from './receiver.ts'

interface Worker {
  readonly id: number
  readonly pid: number
  readonly state: string
  readonly isLeader: boolean
  readonly lanes: number
  readonly inFlight: number | null
  readonly version: string
}

test('the death of a worker is logged by the worker that takes over and by the leader, and listed', async (t) => {
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t)
  const server = await Program.start(t, 'serve', place.store)
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  const workers = async (): Promise<Worker[]> => {
    const headers = { authorization: `Bearer ${apiKey}` }
    const response = await fetch(`${server.api}/worker?ended=true`, { headers })
    assert.equal(response.status, 200)
    return ((await response.json()) as { data: Worker[] }).data
  }
  await eventually('the server leads', async () => (await workers())[0]?.isLeader)
  const worker = await Program.start(t, 'worker', place.store)
  await client.createApplication('acme')
  for (let i = 0; i < 8; i++) {
    receiver.behave(`/${i}`, () => new Promise((resolve) => setTimeout(resolve, 300, { status: 200 })))
    await client.createEndpoint('acme', { url: `${receiver.url}/${i}` })
  }
  const isBusy = async () => {
    await client.publish('acme', 'x', Buffer.from('{}'))
    return (await workers()).some(({ pid, lanes, inFlight }) => pid === worker.pid && lanes > 0 && (inFlight ?? 0) > 0)
  }
  await eventually('the worker owns a lane and has attempts under way', isBusy)

  await worker.kill()
  await eventually('the one that takes over says so', () =>
    /took over \d+ lanes? after the death of/.test(server.logged),
  )
  await eventually('the leader says so', () => /worker \d+ \(.*\) is dead/.test(server.logged))
  assert.match(
    server.logged,
    new RegExp(
      `worker \\d+ \\(.*pid ${worker.pid}\\b.*\\) died: its (lease expired|connection to the database ended); \\d+ lane`,
    ),
  )
  const [dead, alive] = (await workers()).toSorted((a, b) => b.id - a.id)
  assert.deepEqual([dead?.pid, dead?.state, dead?.lanes], [worker.pid, 'dead', 0])
  assert.deepEqual([alive?.pid, alive?.state, alive?.isLeader], [server.pid, 'alive', true])
  assert.match(String(alive?.version), /^\d+\.\d+\.\d+/)
})
