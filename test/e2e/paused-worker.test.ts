import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { copies, deliveryOf, Ledger } from './ledger.ts'
import { owners, pendingCount, postgresPlace } from './place.ts'
import { Program } from './program.ts'
import { Receiver } from './receiver.ts'

const paths = Array.from({ length: 8 }, (_, i) => `/lane-${i}`)

test('a worker that slept past its lease is fenced, joins again and continues', async (t) => {
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t)
  const ledger = new Ledger()
  const server = await Program.start(t, 'serve', place.store)
  const worker = await Program.start(t, 'worker', place.store)
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  await client.createApplication('acme')
  for (const path of paths)
    await ledger.subscribe(client, receiver, 'acme', path, { concurrency: 2, timeoutMs: 60_000 })

  // Both own lanes before the receiver stops answering: a lane with something open cannot change hands.
  await eventually('the worker has lanes of its own', async () => {
    await ledger.publishAll(client, 'acme', 2)
    await ledger.allDelivered(receiver)
    return (await owners(place)).some(({ pid }) => pid === worker.pid)
  })
  const answered = ledger.accepted.length

  // The receiver keeps everything open, so that the worker falls asleep with attempts under way.
  const { promise: opened, resolve: letGo } = Promise.withResolvers<void>()
  for (const path of paths) receiver.behave(path, () => opened.then(() => ({ status: 200 })))
  await ledger.publishAll(client, 'acme', 20)
  const owned = await eventually('the worker has attempts under way', async () => {
    const list = (await owners(place)).filter(({ pid }) => pid === worker.pid)
    const isOpen = (path: string) => [...receiver.open].some((arrival) => arrival.path === path)
    return list.length > 0 && list.every(({ path }) => isOpen(path)) ? list : undefined
  })
  worker.pause()
  const [asleep] = owned.map((owner) => owner.worker)
  const openAtPause = new Set<string>()

  await eventually('another took its lanes over', async () => {
    // The receiver may read now what the worker wrote before it slept; no other worker sends while the lanes are still its own.
    const open = [...receiver.open].map(deliveryOf)
    const now = await owners(place)
    if (owned.every(({ path }) => now.some((owner) => owner.path === path && owner.pid === worker.pid))) {
      for (const delivery of open) openAtPause.add(delivery)
    }
    return owned.every(({ path }) => now.some((owner) => owner.path === path && owner.pid === server.pid))
  })
  letGo()
  await ledger.allDelivered(receiver)
  await eventually('everything is recorded', async () => (await pendingCount(place)) === 0)
  const recorded = await attemptRows()

  // When the worker wakes, its sockets have answers to attempts that are no longer its own.
  worker.resume()
  await eventually('the worker learns of its death', () => worker.logged.includes('the lease of this worker expired'))
  const rejoined = await eventually('the worker joins anew', async () => {
    const rows = await place.query(
      `select id from worker where ended_at is null and description like '%worker (pid ${worker.pid} %'`,
    )
    return rows[0] && Number(rows[0].id)
  })
  assert.notEqual(rejoined, asleep)
  assert.deepEqual(await attemptRows(), recorded, 'the fenced worker recorded nothing')

  // Now it alone is left to do the work.
  await ledger.publishAll(client, 'acme', 40)
  await assertOneEnd()
  server.terminate()
  assert.deepEqual(await server.exited, { code: 0, signal: null })
  await ledger.allDelivered(receiver)
  await eventually('everything is recorded', async () => (await pendingCount(place)) === 0)
  ledger.audit(receiver)
  for (const [delivery, count] of copies(receiver)) {
    assert.ok(count === 1 || (count === 2 && openAtPause.has(delivery)), `${delivery} came ${count} times`)
  }
  assert.ok(worker.isRunning)

  async function attemptRows(): Promise<unknown[]> {
    return place.query('select id, message, endpoint, n, code from attempt order by id')
  }

  /** Each delivery of the messages that were under way has exactly one attempt on record, and that succeeded. */
  async function assertOneEnd(): Promise<void> {
    for (const { outcome } of ledger.accepted.slice(answered, answered + 20)) {
      const id = outcome.state === 'accepted' ? outcome.id : ''
      const attempts = await client.attempts('acme', id)
      assert.equal(attempts.filter(({ code }) => code === 'delivered').length, paths.length)
      assert.equal(new Set(attempts.map(({ endpointId }) => endpointId)).size, paths.length)
      const destinations = await client.destinations('acme', id)
      assert.deepEqual(new Set(destinations.map(({ statusText }) => statusText)), new Set(['success']))
    }
  }
})
