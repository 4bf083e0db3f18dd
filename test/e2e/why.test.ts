import assert from 'node:assert/strict'
import { test } from 'node:test'
import { embed } from '../library/embedded.ts'
import { atEnd } from './at-end.ts'
import { eventually } from './eventually.ts'
import { postgresPlace } from './place.ts'
import { Program } from './program.ts'
import { Receiver } from './receiver.ts'
import { startHere } from './server-here.ts'

test('a question in one process is answered by the worker in another, until that one dies', async (t) => {
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t)
  const { promise: opened, resolve: letGo } = Promise.withResolvers<void>()
  atEnd(t, letGo)
  receiver.behave('/hook', () => opened.then(() => ({ status: 200 })))
  const asking = await embed(t, place, { deliver: false })
  await asking.applications.create({ name: 'Acme', uid: 'acme' })
  const url = `${receiver.url}/hook`
  await asking.endpoints.create('acme', { url, uid: 'main', concurrency: 1, timeoutMs: 60_000 })
  const { id: first } = await asking.publish('acme', { eventType: 'a.b', payload: {} })
  const { id: second } = await asking.publish('acme', { eventType: 'a.b', payload: {} })

  const none = await asking.explain('acme', 'main')
  assert.deepEqual([none.reason, none.isLive, none.waiting.total], ['no_worker', false, 2])

  const worker = await Program.start(t, 'worker', place.store)
  await receiver.until('the first came', () => receiver.arrivals.length === 1)
  const busy = await asking.explain('acme', 'main')
  assert.deepEqual([busy.reason, busy.isLive], ['in_flight', true])
  assert.match(busy.detail, /^1 of 1 attempts are under way, the longest for /)
  const sending = await asking.explain('acme', 'main', first)
  assert.deepEqual([sending.reason, sending.isLive], ['sending', true])
  const behind = await asking.explain('acme', 'main', second)
  assert.deepEqual([behind.reason, behind.ahead, behind.isLive], ['in_flight', 0, true])

  worker.pause()
  const silent = await asking.explain('acme', 'main')
  assert.deepEqual([silent.reason, silent.isLive], ['owner_silent', false])
  assert.match(silent.detail, new RegExp(`^Its worker \\(.*pid ${worker.pid}.*\\) does not answer`))
  await worker.kill()
  await eventually('nobody is left', async () => (await asking.explain('acme', 'main')).reason === 'no_worker')

  await startHere(t, 'worker', place.store)
  letGo()
  await eventually('all is delivered', async () => (await asking.explain('acme', 'main')).reason === 'idle')
  assert.equal((await asking.explain('acme', 'main', second)).reason, 'delivered')
})
