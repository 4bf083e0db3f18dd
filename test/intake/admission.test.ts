import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { AppError } from '../../src/domain/app-error.ts'
import { Admission, type AdmissionLimits, Depths } from '../../src/intake/admission.ts'
import { QueueSurvey } from '../../src/metrics/queue-survey.ts'
import type { Publication, QueueCursor, RestingEnd } from '../../src/store/store.ts'
import { VirtualClock } from '../virtual-clock.ts'

const roomy: AdmissionLimits = { perEndpoint: 1e9, perApplication: 1e9, server: 1e9, commitDelayMs: 5000 }

function world(limits: Partial<AdmissionLimits>) {
  const clock = new VirtualClock()
  const depths = new Depths(clock)
  return { clock, depths, admission: new Admission({ ...roomy, ...limits }, depths, clock) }
}

function to(app: number, ...endpoints: number[]): Publication {
  const content = { eventType: 'a', eventId: null, channels: null, body: new Uint8Array(0), contentType: 'text/plain' }
  return { app, version: 1, endpoints, delayMs: 0, ...content }
}

function refusalOf(admit: () => void): AppError {
  try {
    admit()
  } catch (error) {
    assert(error instanceof AppError && error.code === 'overloaded')
    return error
  }
  assert.fail('it was admitted')
}

/** Reports that a delivery ended. */
function end(depths: Depths, app: number, endpoint: number): void {
  depths.ended([{ app, endpoint } as RestingEnd])
}

describe('admission', () => {
  test('a refusal costs no stack trace, and other errors keep theirs', () => {
    const { admission } = world({ server: 0 })
    const refusal = refusalOf(() => admission.admit([to(1, 1)], 0))
    assert.equal(refusal.stack, `AppError: ${refusal.message}`)
    assert.match(String(new AppError('not_found', 'There is none.').stack), /admission\.test/)
  })

  test('each limit refuses what would go beyond it, whole, and counts nothing of it', () => {
    for (const limits of [{ perEndpoint: 2 }, { perApplication: 2 }, { server: 2 }]) {
      const { admission, depths } = world(limits)
      admission.admit([to(1, 10), to(1, 10)], 0)
      refusalOf(() => admission.admit([to(1, 10)], 0))
      refusalOf(() => admission.admit([to(2, 20), to(1, 10)], 0))
      assert.equal(depths.server.waiting, 2)
      end(depths, 1, 10)
      admission.admit([to(1, 10)], 0)
    }
  })

  test('a fan-out and a batch are refused for the one endpoint that has no room', () => {
    const { admission, depths } = world({ perEndpoint: 2 })
    admission.admit([to(1, 10), to(1, 10)], 0)
    refusalOf(() => admission.admit([to(1, 11, 12, 10)], 0))
    refusalOf(() => admission.admit([to(1, 11), to(1, 12), to(1, 12), to(1, 12)], 0))
    assert.equal(depths.endpoint(11)?.waiting ?? 0, 0)
    admission.admit([to(1, 11, 12)], 0)
  })

  test('room that was admitted and not used is given back', () => {
    const { admission } = world({ server: 1 })
    admission.admit([to(1, 10)], 0)
    refusalOf(() => admission.admit([to(1, 10)], 0))
    admission.withdraw([to(1, 10)])
    admission.admit([to(1, 10)], 0)
  })

  test('Retry-After is how long the excess takes to drain at the rate of late', async () => {
    const { admission, depths, clock } = world({ perEndpoint: 1000 })
    for (let i = 0; i < 1200; i++) depths.add(1, [10], 1)
    assert.equal(refusalOf(() => admission.admit([to(1, 10)], 0)).retryAfterSeconds, 60, 'nobody knows yet')
    await clock.advance(10_000 - (clock.steady() % 10_000))
    for (let i = 0; i < 100; i++) {
      await clock.advance(100)
      end(depths, 1, 10)
    }
    // Ten a second, and 101 too many.
    assert.equal(refusalOf(() => admission.admit([to(1, 10)], 0)).retryAfterSeconds, 11)
    await clock.advance(3_600_000)
    assert.equal(refusalOf(() => admission.admit([to(1, 10)], 0)).retryAfterSeconds, 60)
  })

  test('commits that come too late refuse, too', () => {
    const { admission } = world({ commitDelayMs: 1000 })
    admission.admit([to(1, 10)], 1000)
    assert.equal(refusalOf(() => admission.admit([to(1, 10)], 2500)).retryAfterSeconds, 3)
  })

  test('whatever comes and goes, no limit is ever exceeded and nothing is refused without need', () => {
    const step = fc.record({ app: fc.nat(2), endpoints: fc.uniqueArray(fc.nat(3), { maxLength: 4 }), ends: fc.nat(4) })
    const run = fc.property(fc.array(step, { maxLength: 60 }), fc.integer({ min: 1, max: 6 }), (steps, limit) => {
      const limits = { perEndpoint: limit, perApplication: 2 * limit, server: 3 * limit, commitDelayMs: 1 }
      const { admission, depths } = world(limits)
      const waiting: [number, number][] = []
      for (const { app, endpoints, ends } of steps) {
        const keys = endpoints.map((endpoint) => app * 10 + endpoint)
        const inAll = waiting.length + keys.length
        const ofApp = waiting.filter(([owner]) => owner === app).length + keys.length
        const most = Math.max(0, ...keys.map((key) => waiting.filter(([, endpoint]) => endpoint === key).length + 1))
        const fits = inAll <= limits.server && ofApp <= limits.perApplication && most <= limits.perEndpoint
        let admitted = true
        try {
          admission.admit([to(app, ...keys)], 0)
        } catch {
          admitted = false
        }
        assert.equal(admitted, fits)
        if (admitted) waiting.push(...keys.map((key): [number, number] => [app, key]))
        for (const [owner, endpoint] of waiting.splice(0, ends)) end(depths, owner, endpoint)
        assert.equal(depths.server.waiting, waiting.length)
      }
    })
    fc.assert(run, { numRuns: 200 })
  })
})

describe('depths', () => {
  /** A store's queues, as far as counting them goes. */
  function queues(rows: { endpoint: number; app: number; count: number }[]) {
    const pages: (QueueCursor | null)[] = []
    return {
      rows,
      pages,
      async surveyWaiting(after: QueueCursor | null) {
        pages.push(after)
        const i = after === null ? 0 : rows.findIndex(({ endpoint }) => endpoint === after.endpoint) + 1
        const row = rows[i]
        const next =
          row && i + 1 < rows.length ? { endpoint: row.endpoint, class: 0 as const, dueAt: 0, message: 0 } : null
        const rest = { class: 0 as const, late: 0, dueAgoMs: 0, stopped: false }
        return { counts: row ? [{ ...row, ...rest }] : [], next }
      },
    }
  }

  test('are set right by what the store holds, page by page, again and again', async () => {
    const clock = new VirtualClock()
    const depths = new Depths(clock)
    depths.add(1, [10, 10, 99], 1)
    const store = queues([
      { endpoint: 10, app: 1, count: 7 },
      { endpoint: 20, app: 2, count: 5 },
    ])
    const survey = new QueueSurvey({ store, clock })
    depths.follow(survey)
    await clock.advance(100)
    assert.deepEqual([depths.endpoint(10)?.waiting, depths.endpoint(20)?.waiting], [7, 5])
    assert.deepEqual([depths.application(1)?.waiting, depths.application(2)?.waiting], [7, 5])
    assert.equal(depths.server.waiting, 12)
    assert.equal(depths.endpoint(99), undefined)
    store.rows.splice(0, 1)
    await clock.advance(6000)
    assert.equal(depths.server.waiting, 5)
    survey.stop()
    const asked = store.pages.length
    await clock.advance(60_000)
    assert.equal(store.pages.length, asked)
  })

  test('stay as they were while the store cannot answer, and go on after it', async () => {
    const clock = new VirtualClock()
    const depths = new Depths(clock)
    depths.add(1, [10], 1)
    const store = queues([{ endpoint: 10, app: 1, count: 3 }])
    const troubles: unknown[] = []
    let broken = true
    const survey = new QueueSurvey({
      store: { surveyWaiting: (after) => (broken ? Promise.reject(new Error('gone')) : store.surveyWaiting(after)) },
      clock,
      onTrouble: (error) => void troubles.push(error),
    })
    depths.follow(survey)
    await clock.advance(100)
    assert.equal(depths.server.waiting, 1)
    assert.equal(troubles.length, 1)
    broken = false
    await clock.advance(6000)
    assert.equal(depths.server.waiting, 3)
    survey.stop()
  })
})
