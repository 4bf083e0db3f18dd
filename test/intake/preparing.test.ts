import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { defaultFlow } from '../../src/domain/flow.ts'
import { Admission } from '../../src/intake/admission.ts'
import { Preparer } from '../../src/intake/preparer.ts'
import { Publisher } from '../../src/intake/publisher.ts'
import { appSubscriptions } from '../../src/intake/subscriptions.ts'
import { Ledger } from '../../src/metrics/ledger.ts'
import { observed } from '../../src/metrics/observed-store.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import { plainEndpoint } from '../store/conformance/harness.ts'
import { contextWith, placeFor } from '../store/sqlite-harness.ts'

const limits = { perEndpoint: 2, perApplication: 100, server: 100, commitDelayMs: 60_000 }
const envelope = { eventType: 'a', eventId: null, channels: null, contentType: 'application/json', delayMs: 0 }
const item = { envelope, body: Buffer.from('{}') }

async function createWorld(t: TestContext) {
  const { path } = placeFor(t)
  const store = await openSqliteStore(contextWith(systemClock), { path, role: 'owner' })
  t.after(() => store.close())
  const app = await store.createApplication({ name: 'Acme', uid: 'acme', throttleRate: null, metadata: {} })
  // Its subscription alone does not match an event of type `a`.
  const endpoint = await store.createEndpoint(app.key, { ...plainEndpoint, eventTypes: ['b'], channels: ['c'] })
  const ledger = new Ledger({ store, clock: systemClock, isTold: true })
  const admission = new Admission(limits, ledger)
  const told = observed(store, systemClock, [ledger, admission])
  const publisher = new Publisher({ store: told, clock: systemClock, admission })
  return { path, store, app, endpoint, ledger, publisher, waiting: () => ledger.waiting }
}

test('a message that cannot pause for others gets work for 50 ms; one that can gets the budget of a request', async () => {
  const [endpoints, values] = [40, 12_000]
  const list = Array.from({ length: endpoints }, (_, i) => {
    const flow = { ...defaultFlow, filter: `!payload.l.exists(x, x == ${-i - 1})` }
    const treatment = { id: `ep_${i}`, disabled: false, flow, secret: null, regionSecret: null }
    return { endpoint: i + 1, eventTypes: null, channels: null, treatment }
  })
  const body = Buffer.from(JSON.stringify({ l: Array.from({ length: values }, (_, i) => i) }))
  const subscriptions = appSubscriptions(1, { version: 1, list, dedupeSeconds: null }, 0)
  const unfiltered = ({ publications: [publication] }: Awaited<ReturnType<Preparer['prepare']>>) => {
    assert.equal(publication?.endpoints.length, endpoints)
    return publication?.special?.filter(({ drop }) => drop === 'unfiltered').length ?? 0
  }
  // A preparer each, because the budget of the application is the same one.
  const atOnce = new Preparer({ clock: systemClock }).prepareAtOnce(subscriptions, { envelope, body })
  const inParts = new Preparer({ clock: systemClock }).prepare(subscriptions, [{ envelope, body }])
  assert(inParts instanceof Promise)
  const [few, many] = [unfiltered(await inParts), unfiltered(atOnce)]
  assert.ok(many > few, `${many} of ${endpoints} filters were left out at once, ${few} in parts`)
  assert.ok(many < endpoints, 'the first filters are evaluated')
})

test('a message for one endpoint ignores its subscription, and counts as waiting like any other', async (t) => {
  const { endpoint, publisher, store, waiting } = await createWorld(t)
  await publisher.publish('acme', envelope, item.body)
  assert.equal(waiting(), 0)
  for (const expected of [1, 2]) {
    await publisher.publishToOne(endpoint, item)
    assert.equal(waiting(), expected)
  }
  await assert.rejects(publisher.publishToOne(endpoint, item), { code: 'overloaded' })
  assert.equal((await store.counts()).pending, 2)
  await assert.rejects(publisher.publishToOne({ ...endpoint, key: 999 }, item), { code: 'not_found' })
  assert.equal(waiting(), 2)
})

test('a message that was not stored no longer counts as waiting, whatever way it was to be committed', async (t) => {
  const { path, publisher, waiting } = await createWorld(t)
  const used = { envelope: { ...envelope, eventType: 'b', channels: ['c'], eventId: 'e-1' }, body: item.body }
  await publisher.publish('acme', used.envelope, used.body)
  assert.equal(waiting(), 1)
  await assert.rejects(publisher.publish('acme', used.envelope, used.body), { code: 'conflict' })
  await assert.rejects(publisher.publishTogether('acme', [used]), { code: 'conflict', message: /^Message 0: / })
  const failing = () => Promise.reject(new Error('the callback failed'))
  await assert.rejects(publisher.publishBy('acme', used, failing), /the callback failed/)
  using own = new DatabaseSync(path)
  own.exec('begin immediate')
  const within = () => publisher.publishWithin(own, 'acme', used)
  assert.throws(within, { code: 'conflict', message: /e-1/ })
  assert.throws(() => publisher.publishWithin(own, 'nobody', used), { code: 'not_found' })
  own.exec('rollback')
  assert.equal(waiting(), 1)
})
