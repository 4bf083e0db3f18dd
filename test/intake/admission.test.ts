import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { AppError } from '../../src/domain/app-error.ts'
import { Admission, type AdmissionLimits } from '../../src/intake/admission.ts'
import { Ledger } from '../../src/metrics/ledger.ts'
import type { Publication, RestingEnd } from '../../src/store/store.ts'
import { VirtualClock } from '../virtual-clock.ts'

const roomy: AdmissionLimits = { perEndpoint: 1e9, perApplication: 1e9, server: 1e9, commitDelayMs: 5000 }

function world(limits: Partial<AdmissionLimits>) {
  const clock = new VirtualClock()
  const store = {
    surveyWaiting: () => assert.fail('nothing is counted here'),
    queueRungs: () => assert.fail(),
    countRange: () => assert.fail(),
  }
  const ledger = new Ledger({ store, clock, isTold: true })
  const admission = new Admission({ ...roomy, ...limits }, ledger)
  /** Has publications admitted and stored. */
  function take(publications: readonly Publication[], delayMs = 0): void {
    const admitted = admission.admit(publications, delayMs)
    ledger.storing(admitted)
    admission.storing(admitted)
  }
  return { clock, ledger, admission, take }
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
function end(ledger: Ledger, app: number, endpoint: number): void {
  const row = { class: 0, dueAt: 0, message: 0 } as RestingEnd['row']
  ledger.ended([{ app, endpoint, row, reason: 'aged' }])
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
      const { admission, ledger, take } = world(limits)
      take([to(1, 10), to(1, 10)])
      refusalOf(() => admission.admit([to(1, 10)], 0))
      refusalOf(() => admission.admit([to(2, 20), to(1, 10)], 0))
      assert.equal(ledger.waiting, 2)
      end(ledger, 1, 10)
      take([to(1, 10)])
    }
  })

  test('a fan-out and a batch are refused for the one endpoint that has no room', () => {
    const { admission, ledger, take } = world({ perEndpoint: 2 })
    take([to(1, 10), to(1, 10)])
    refusalOf(() => admission.admit([to(1, 11, 12, 10)], 0))
    refusalOf(() => admission.admit([to(1, 11), to(1, 12), to(1, 12), to(1, 12)], 0))
    assert.equal(ledger.waitingAt(11), 0)
    take([to(1, 11, 12)])
  })

  test('room that was admitted and not used is given back', () => {
    const { admission } = world({ server: 1 })
    const first = admission.admit([to(1, 10)], 0)
    refusalOf(() => admission.admit([to(1, 10)], 0))
    admission.withdraw(first)
    admission.withdraw(first)
    admission.admit([to(1, 10)], 0)
    refusalOf(() => admission.admit([to(1, 10)], 0))
  })

  test('Retry-After is how long the excess takes to drain at the rate of late', async () => {
    const { admission, ledger, clock } = world({ perEndpoint: 1000 })
    ledger.storing(Array.from({ length: 1200 }, () => to(1, 10)))
    assert.equal(refusalOf(() => admission.admit([to(1, 10)], 0)).retryAfterSeconds, 60, 'nobody knows yet')
    await clock.advance(10_000 - (clock.steady() % 10_000))
    for (let i = 0; i < 100; i++) {
      await clock.advance(100)
      end(ledger, 1, 10)
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
      const { ledger, take } = world(limits)
      const waiting: [number, number][] = []
      for (const { app, endpoints, ends } of steps) {
        const keys = endpoints.map((endpoint) => app * 10 + endpoint)
        const inAll = waiting.length + keys.length
        const ofApp = waiting.filter(([owner]) => owner === app).length + keys.length
        const most = Math.max(0, ...keys.map((key) => waiting.filter(([, endpoint]) => endpoint === key).length + 1))
        const fits = inAll <= limits.server && ofApp <= limits.perApplication && most <= limits.perEndpoint
        let admitted = true
        try {
          take([to(app, ...keys)])
        } catch {
          admitted = false
        }
        assert.equal(admitted, fits)
        if (admitted) waiting.push(...keys.map((key): [number, number] => [app, key]))
        for (const [owner, endpoint] of waiting.splice(0, ends)) end(ledger, owner, endpoint)
        assert.equal(ledger.waiting, waiting.length)
      }
    })
    fc.assert(run, { numRuns: 200 })
  })
})
