import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startChild } from '../../bench/child.ts'
import type { LoadCommands } from '../../bench/load.ts'
import type { ReceiverCommands } from '../../bench/receiver.ts'
import type { AcceptCommands } from '../../bench/reference-accept.ts'
import type { SendCommands } from '../../bench/reference-send.ts'

async function receiving(ends: AsyncDisposableStack) {
  const receiver = startChild<ReceiverCommands>('receiver', ends)
  const [port] = await receiver.ask('listen', 1)
  const post = (path: string, id: string): Promise<Response> =>
    fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', headers: { 'webhook-id': id }, body: '{}' })
  return { receiver, origin: `http://127.0.0.1:${port}`, post }
}

test('the receiver counts a message once per path and the rest as duplicates', async () => {
  await using ends = new AsyncDisposableStack()
  const { receiver, post } = await receiving(ends)
  await receiver.ask('reset', 'ids')
  for (const [path, id] of [
    ['/0', 'a'],
    ['/0', 'a'],
    ['/0', 'b'],
    ['/1', 'a'],
  ] as const) {
    assert.equal((await post(path, id)).status, 200)
  }
  assert.equal(await receiver.ask('until', { count: 3, quietMs: 1000 }), 3)
  const { delivered, duplicates, timeline } = await receiver.ask('totals')
  assert.deepEqual([delivered, duplicates], [3, 1])
  assert.equal(
    timeline.reduce((sum, n) => sum + n),
    4,
  )
  const records = await receiver.ask('records')
  assert.deepEqual(
    records.map(({ path, ids }) => [path, ids]),
    [
      ['/0', ['a', 'a', 'b']],
      ['/1', ['a']],
    ],
  )
})

test('requests that the receiver refused, cut off or left open are not counted as delivered', async () => {
  await using ends = new AsyncDisposableStack()
  const { receiver, post } = await receiving(ends)
  await receiver.ask('reset', 'ids')
  await receiver.ask('behave', { paths: ['/504'], behaviour: { status: 504 } })
  await receiver.ask('behave', { paths: ['/cut'], behaviour: 'reset' })
  await receiver.ask('behave', { paths: ['/open'], behaviour: 'hang' })
  assert.equal((await post('/504', 'a')).status, 504)
  await assert.rejects(post('/cut', 'a'))
  const open = assert.rejects(post('/open', 'a'))
  // Nothing will be delivered: the wait ends because nothing comes.
  assert.equal(await receiver.ask('until', { count: 1, quietMs: 100 }), 0)
  const requests = (await receiver.ask('records')).map((record) => record.requests)
  assert.deepEqual(requests, [1, 1, 1])
  await ends.disposeAsync()
  await open
})

test('the publisher sends on time, and the forwarding reference passes every message on', async () => {
  await using ends = new AsyncDisposableStack()
  const { receiver, origin } = await receiving(ends)
  await receiver.ask('reset', 'ids')
  const accept = startChild<AcceptCommands>('reference-accept', ends)
  const load = startChild<LoadCommands>('load', ends)
  const url = await accept.ask('listen', { forwardTo: `${origin}/0`, connections: 4 })
  const open = await load.ask('openLoop', { url, key: 'k', connections: 4, rate: 500, seconds: 0.2 })
  assert.equal(open.accepted, 100)
  assert.ok(open.endedAt - open.startedAt >= 195, 'the last request is due after 198 ms')
  const closed = await load.ask('closedLoop', { url, key: 'k', connections: 4, seconds: 30, count: 50 })
  assert.equal(closed.accepted, 50)
  assert.equal(await receiver.ask('until', { count: 150, quietMs: 2000 }), 150)
  assert.equal(new Set([...open.ids, ...closed.ids]).size, 150)
})

test('the bare loop is answered as often as the receiver counts', async () => {
  await using ends = new AsyncDisposableStack()
  const { receiver, origin } = await receiving(ends)
  await receiver.ask('reset', 'counts')
  const send = startChild<SendCommands>('reference-send', ends)
  const { answered } = await send.ask('run', { urls: [`${origin}/0`], connectionsEach: 2, seconds: 0.1 })
  const { delivered, peakConnections } = await receiver.ask('totals')
  assert.equal(delivered, answered)
  assert.equal(peakConnections, 2)
})

test('asking a process that has ended fails instead of waiting for ever', async () => {
  await using ends = new AsyncDisposableStack()
  const receiver = startChild<ReceiverCommands>('receiver', ends)
  await receiver.ask('listen', 1)
  const asked = assert.rejects(receiver.ask('until', { count: 1, quietMs: 60_000 }), /ended early/)
  process.kill(receiver.pid, 'SIGKILL')
  await asked
})
