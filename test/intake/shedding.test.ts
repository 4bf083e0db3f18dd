import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../../src/domain/app-error.ts'
import { Admission } from '../../src/intake/admission.ts'
import { Publisher } from '../../src/intake/publisher.ts'
import { Ledger } from '../../src/metrics/ledger.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import { plainEndpoint } from '../store/conformance/harness.ts'
import { contextWith } from '../store/sqlite-harness.ts'
import { VirtualClock } from '../virtual-clock.ts'

const envelope = { eventType: 'a', eventId: null, channels: null, contentType: 'text/plain', delayMs: 0 }
/** The time of a transaction, and of each message in it: at most 4,200 messages a second. */
const commitMs = 20
const messageMs = 0.2
const limitMs = 500

interface Load {
  readonly accepted: number[]
  readonly refused: number[]
  readonly retryAfter: number[]
}

/** Offers `perSecond` messages for three virtual seconds and notes how long each waited for its answer. */
async function offer(perSecond: number): Promise<Load> {
  const clock = new VirtualClock()
  const store = await openSqliteStore(contextWith(clock), { path: ':memory:', role: 'owner' })
  const app = await store.createApplication({ name: 'A', uid: 'acme', throttleRate: null, metadata: {} })
  await store.createEndpoint(app.key, { ...plainEndpoint, disabled: true })
  const roomy = { perEndpoint: 1e9, perApplication: 1e9, server: 1e9 }
  const admission = new Admission({ ...roomy, commitDelayMs: limitMs }, new Ledger({ store, clock }))
  let free = Promise.resolve()
  const publisher = new Publisher({
    clock,
    admission,
    store: {
      ...store,
      // One at a time, as SQLite does.
      publish: (publications) => {
        const tookMs = commitMs + messageMs * publications.length
        free = free.then(() => new Promise((resolve) => void clock.after(tookMs, resolve)))
        return free.then(() => publications.map((_, key) => ({ state: 'accepted', key, id: '' })))
      },
    },
  })
  const load: Load = { accepted: [], refused: [], retryAfter: [] }
  const answers: Promise<void>[] = []
  for (let ms = 0; ms < 3000; ms += 10) {
    for (let i = 0; i < perSecond / 100; i++) {
      const askedAt = clock.steady()
      const answer = publisher.publish('acme', envelope, Buffer.from('x')).then(
        () => void load.accepted.push(clock.steady() - askedAt),
        (error: unknown) => {
          assert(error instanceof AppError && error.code === 'overloaded')
          load.refused.push(clock.steady() - askedAt)
          load.retryAfter.push(error.retryAfterSeconds ?? 0)
        },
      )
      answers.push(answer)
    }
    await clock.advance(10)
  }
  await clock.advance(60_000)
  await Promise.all(answers)
  await store.close()
  return load
}

test('however much is offered, what is accepted is answered as soon as ever, and the rest is refused at once', async () => {
  const calm = await offer(2000)
  assert.deepEqual(calm.refused, [])
  const [some, much] = [await offer(8000), await offer(32_000)]
  for (const load of [some, much]) {
    assert.ok(load.refused.length > 0)
    assert.ok(load.accepted.length > 9000, `only ${load.accepted.length} of the 12,600 there was time for`)
    assert.equal(Math.max(...load.refused), 0, 'refused in the turn it arrived')
    assert.ok(load.retryAfter.every((seconds) => seconds >= 1 && seconds < 10))
  }
  // Four times the load, the same wait: what the limit permits, and the burst that is always taken in.
  const worst = [some, much].map((load) => Math.max(...load.accepted))
  for (const ms of worst) assert.ok(ms < 2500, `${ms} ms for the slowest that was accepted`)
  assert.ok(Math.abs((worst[0] as number) - (worst[1] as number)) < 1000, `${worst}`)
})
