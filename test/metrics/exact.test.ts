import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { openParts } from '../../src/compose/parts.ts'
import type { Meter } from '../../src/metrics/meter.ts'
import { configOf } from '../../src/runtime/config.ts'
import { openLog } from '../../src/runtime/log.ts'
import type { NewEndpoint, Store } from '../../src/store/store.ts'
import { atEnd } from '../e2e/at-end.ts'
import { eventually } from '../e2e/eventually.ts'
import { openPlace, type Place } from '../e2e/place.ts'
import { Receiver } from '../e2e/receiver.ts'
import { plainEndpoint } from '../store/conformance/harness.ts'

const rounds = 3
const messagesPerRound = 40
/** Long against every attempt here, so that a stop waits for all of them and gives none up. */
const stopMs = 60_000

/** A process that publishes and delivers. Its counts outlive it. */
async function start(place: Place) {
  const config = configOf({
    store: place.store,
    encryptionKey: `${'A'.repeat(43)}=`,
    allowNetworks: '127.0.0.0/8',
    minRetryWait: 0,
    failuresPerMinute: 0,
    circuitFailures: 0,
    lease: '60s',
  })
  const parts = await openParts(config, openLog({ logLevel: 'silent', logFormat: null }))
  const delivering = await parts.startDelivering('under test')
  let stopped = false
  return {
    ...parts,
    async stop() {
      if (stopped) return
      stopped = true
      await delivering.stop(stopMs)
      await parts.store.close()
    },
  }
}

/** Receivers that fail, hang and ask for time; each path is one endpoint. */
async function chaos(t: TestContext, store: Store) {
  const receiver = await Receiver.listen(t)
  const seen = new Map<string, number>()
  const nth = (path: string) => {
    seen.set(path, (seen.get(path) ?? 0) + 1)
    return seen.get(path) as number
  }
  receiver.behave('/flaky', () => ({ status: nth('/flaky') % 3 === 0 ? 200 : 503 }))
  receiver.behave('/dead', () => ({ status: 500 }))
  receiver.behave('/busy', () =>
    nth('/busy') % 20 === 1 ? { status: 429, headers: { 'retry-after': '1' } } : { status: 204 },
  )
  receiver.behave('/hangs', () => (nth('/hangs') % 30 === 1 ? new Promise(() => {}) : { status: 200 }))
  const app = await store.createApplication({ name: 'chaos', uid: 'chaos', throttleRate: null, metadata: {} })
  const retry = {
    waits: { kind: 'list', ms: [5, 20, 50, 100, 200, 200] },
    jitter: 'none',
    maxAgeMs: 3_600_000,
  } as const
  const secrets = [{ secret: `whsec_${Buffer.alloc(24, 7).toString('base64')}`, expiresAt: null }]
  const endpoint = (path: string, change: Partial<NewEndpoint> = {}) =>
    store.createEndpoint(app.key, { ...plainEndpoint, url: `${receiver.url}${path}`, secrets, retry, ...change })
  await endpoint('/ok')
  await endpoint('/flaky')
  await endpoint('/dead')
  await endpoint('/busy')
  // A receiver that answers must answer in time, also on a busy machine: the sender would count a timeout.
  await endpoint('/hangs', { timeoutMs: 4000 })
  return receiver
}

function sums(meters: readonly Meter[]) {
  const all = new Map<string, number>()
  const add = (name: string, count: number) => all.set(name, (all.get(name) ?? 0) + count)
  for (const meter of meters) {
    add('messages', meter.messagesAccepted)
    add('deliveries', meter.deliveriesAccepted)
    add('retried', meter.deliveriesRetried)
    for (const [end, count] of Object.entries(meter.ends)) add(`ended ${end}`, count)
    for (const [reason, count] of Object.entries(meter.deadLetters)) add(`dead ${reason}`, count)
    for (const { outcome, status, count } of meter.attempts()) add(`attempt ${outcome} ${status}`, count)
    for (const name of ['attemptDuration', 'deliveryWait', 'deliveryDuration'] as const) {
      add(
        name,
        meter[name].counts.reduce((sum, each) => sum + each, 0),
      )
    }
  }
  return (name: string) => all.get(name) ?? 0
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: after chaos and restarts the counters are those of the receiver and of the store`, async (t) => {
    const place = await openPlace(t, dialect)
    // Two workers where the store can have them, and each round one of them is replaced by another.
    const workers = dialect === 'sqlite' ? 1 : 2
    const meters: Meter[] = []
    const running: Awaited<ReturnType<typeof start>>[] = []
    const add = async () => {
      const process = await start(place)
      atEnd(t, () => process.stop())
      meters.push(process.meter)
      running.push(process)
    }
    for (let i = 0; i < workers; i++) await add()
    const [first] = running
    assert(first)
    const receiver = await chaos(t, first.store)
    const envelope = { eventType: 'a.b', eventId: null, channels: null, contentType: 'application/json', delayMs: 0 }
    for (let round = 0; round < rounds; round++) {
      const [process] = running
      assert(process)
      const publish = () => process.publisher().publish('chaos', envelope, Buffer.from('{}'))
      await Promise.all(Array.from({ length: messagesPerRound }, publish))
      await running.shift()?.stop()
      await add()
    }
    const count = async (sql: string) => Number((await place.query(`select count(*) as n from ${sql}`))[0]?.n)
    await eventually('the end of all deliveries', async () => (await count('pending')) === 0)
    for (const process of running) await process.stop()

    const counted = sums(meters)
    const messages = rounds * messagesPerRound
    const deliveries = 5 * messages
    assert.deepEqual([counted('messages'), counted('deliveries')], [messages, deliveries])
    const byCode = await place.query(
      'select code, status / 100 as class, count(*) as n from attempt group by code, status / 100 order by code',
    )
    assert.ok(byCode.length >= 4, 'every kind of answer was met')
    for (const { code, class: itsClass, n } of byCode) {
      const status = Number(itsClass) === 0 ? 'none' : `${itsClass}xx`
      assert.equal(counted(`attempt ${code} ${status}`), Number(n), `attempts ${code} ${status}`)
    }
    const attempts = await count('attempt')
    assert.equal(counted('attemptDuration'), attempts)
    assert.equal(receiver.arrivals.length, attempts, 'the receiver got each attempt once')
    const answered = receiver.arrivals.filter(({ status }) => status !== undefined && status < 300).length
    assert.equal(counted('ended delivered'), answered)
    const dead = await count('dead')
    assert.ok(dead >= messages)
    assert.equal(counted('ended dead'), dead)
    assert.equal(counted('dead exhausted'), dead)
    assert.equal(counted('ended delivered') + counted('ended dead'), deliveries)
    assert.equal(counted('retried'), attempts - deliveries)
    assert.equal(counted('deliveryWait'), deliveries)
    assert.equal(counted('deliveryDuration'), answered)
  })
}
