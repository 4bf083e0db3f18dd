import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '../../../src/runtime/clock.ts'
import { closingMs } from '../../../src/store/maintenance.ts'
import { openPostgresStore } from '../../../src/store/postgres/open.ts'
import type { Store } from '../../../src/store/store.ts'
import { noEffects, plainEndpoint } from '../conformance/harness.ts'
import { context, newDatabase } from '../postgres-harness.ts'

const messages = 500
/** So short that most of the time a window is about to end: what is replaced then is what a worker is about to read. */
const windowMs = closingMs + 150
const kinds = ['a', 'b', 'c']
const publishers = 4

const after = (ms: number) => new Promise<void>((resolve) => void systemClock.after(ms, resolve))

/** Delivers due messages until the publishers have ended and nothing waits; a delivery takes its time. */
async function work(store: Store, endpoint: number, app: number, isOver: () => boolean): Promise<Map<number, number>> {
  const sent = new Map<number, number>()
  const worker = await store.join({ leaseMs: 60_000, description: 'a worker' })
  while ((await store.claim(worker, 1)).lanes.length === 0) await after(5)
  const reads = ([0, 1] as const).map((itsClass) => ({ endpoint, class: itsClass, after: null, limit: 100 }))
  for (;;) {
    const over = isOver()
    const rows = (await store.readDue(reads)).flatMap((page) => page.rows)
    if (over && rows.length === 0 && (await store.counts()).pending === 0) return sent
    for (const { message } of rows) sent.set(message, (sent.get(message) ?? 0) + 1)
    await after(10)
    const attempt = {
      startedAgoMs: () => 10,
      durationMs: 10,
      status: 200,
      code: 'delivered',
      error: null,
      response: null,
    } as const
    const settlements = rows.map((row) => {
      const verdict = { state: 'delivered' } as const
      return { endpoint, app, row, attempt: { ...attempt, id: `atmpt_${row.message}` }, verdict }
    })
    if (rows.length > 0) assert.equal(await store.settle(worker, settlements, noEffects), 'settled')
  }
}

test('whatever publishers and a worker do at once, each delivery is either sent, once, or gave way', async (t) => {
  const url = await newDatabase()
  const stores = await Promise.all([1, 2].map(() => openPostgresStore(context, { url })))
  t.after(() => Promise.all(stores.map((store) => store.close())))
  const [one, other] = stores as [Store, Store]
  const { key: app } = await one.createApplication({ name: 'Acme', uid: null, throttleRate: null, metadata: {} })
  const { key: endpoint } = await one.createEndpoint(app, plainEndpoint)
  const { version = 0 } = (await one.subscriptions(app)) ?? {}
  const published: { key: number; kind: string }[] = []

  async function publishing(store: Store, turn: number): Promise<void> {
    for (let n = turn; n < messages; n += publishers) {
      const kind = kinds[n % kinds.length] as string
      const special = [{ endpoint, coalesce: { key: kind, windowMs } }]
      const plain = { eventType: 'a', eventId: null, channels: null, contentType: 'text/plain', delayMs: 0 }
      const body = Buffer.from('x')
      const [answer] = await store.publish([{ app, version, ...plain, body, endpoints: [endpoint], special }])
      assert(answer?.state === 'accepted')
      published.push({ key: answer.key, kind })
    }
  }

  let over = false
  const working = work(other, endpoint, app, () => over)
  await Promise.all(Array.from({ length: publishers }, (_, turn) => publishing(turn % 2 === 0 ? one : other, turn)))
  over = true
  const sent = await working

  const gaveWay = await one.findCoalesced(published.map(({ key }) => ({ endpoint, message: key })))
  const ends = published.map(({ key }, i) => (sent.get(key) ?? 0) + (gaveWay[i] === undefined ? 0 : 1))
  assert.deepEqual(
    ends.filter((count) => count !== 1),
    [],
    'each has one end',
  )
  // How many give way depends on how many fit into a window, which a slow machine decides.
  assert.ok(sent.size > 0 && sent.size < published.length, `${published.length} became ${sent.size}`)
  // Each gave way to one that was sent, or gave way in turn: nothing of a kind is newer than the last that was sent.
  const byId = new Map((await one.loadSummaries(published.map(({ key }) => key))).map(({ id, key }) => [id, key]))
  for (const each of gaveWay) if (each) assert.ok(byId.has(each.into ?? ''), 'it gave way to one of them')
})
