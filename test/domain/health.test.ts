import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { CircuitPolicy } from '../../src/domain/flow.ts'
import { defaultCircuitPolicy, Health, type HealthChange, type HealthRules } from '../../src/domain/health.ts'
import { type Outcome, signalOf } from '../../src/domain/outcome.ts'
import { answered } from '../answered.ts'

const policy: CircuitPolicy = {
  failures: 3,
  ratio: 0.5,
  windowMs: 10_000,
  minimum: 10,
  openMs: 1000,
  maxOpenMs: 5000,
  rampMs: 2000,
}
const rules: HealthRules = { circuit: policy, adaptive: true, disableAfterMs: 0, rate: 0.1, concurrency: 4 }
const noJitter = () => 0

function outcome(code: Outcome['code'], status = 0, retryAfterMs?: number): Outcome {
  return answered({ code, status, retryAfterMs, response: undefined, error: undefined, durationMs: 1 })
}
const ok = outcome('delivered', 200)
const down = outcome('refused', 500)
const crowded = outcome('refused', 429)

/** One receiver and a clock: each attempt takes no time. */
function patient(given: Partial<HealthRules> = {}, from: Health = new Health(null, 0, 0)) {
  const its = { ...rules, ...given }
  const told: string[] = []
  const note = (change: HealthChange | undefined) => {
    for (const { type, data } of change?.notices ?? []) {
      told.push(`${type.replace('endpoint.circuit.', '')}${data.reason === undefined ? '' : ` (${data.reason})`}`)
    }
    return change
  }
  const tried = (result: Outcome, now: number, startedAt = now) => {
    note(from.began())
    return note(from.ended(result, { startedAt, era: from.era }, its, now, noJitter))
  }
  return { health: from, rules: its, told, tried, note }
}

test('which outcomes count against a receiver', () => {
  for (const [expected, codes] of [
    ['unwell', ['timeout', 'reset', 'invalid_http', 'tls_failed', 'connect_refused', 'dns_not_found', 'blocked']],
    ['well', ['delivered', 'redirected']],
    ['nothing', ['aborted', 'internal']],
  ] as const) {
    for (const code of codes) assert.equal(signalOf(outcome(code)), expected, code)
  }
  for (const [status, retryAfterMs, expected] of [
    [500, undefined, 'unwell'],
    [503, undefined, 'unwell'],
    [503, 5, 'nothing'],
    [429, undefined, 'crowded'],
    [429, 5, 'nothing'],
    [400, undefined, 'well'],
    [404, 5, 'well'],
    [410, undefined, 'nothing'],
  ] as const) {
    assert.equal(signalOf(outcome('refused', status, retryAfterMs)), expected, `${status}`)
  }
})

test('failures in a row open the circuit, and one answer in between restarts the count', () => {
  const { health, tried, told } = patient()
  for (const result of [down, down, outcome('refused', 404), down, down]) tried(result, 0)
  assert.equal(health.circuit, 'closed')
  tried(down, 0)
  assert.equal(health.circuit, 'open')
  assert.equal(health.silentUntil, 1000)
  assert.deepEqual(told, ['opened (failures)'])
})

test('enough failures among enough attempts of a window open it, fewer do not', () => {
  const { health, tried, told } = patient()
  for (let i = 0; i < 4; i++) for (const result of [down, ok]) tried(result, i)
  tried(down, 5)
  assert.equal(health.circuit, 'closed', 'nine attempts say nothing')
  tried(down, 6)
  assert.deepEqual(told, ['opened (ratio)'])
})

test('attempts before the window do not count', () => {
  for (const [at, expected] of [
    [4000, 'open'],
    [20_000, 'closed'],
  ] as const) {
    const { health, tried } = patient()
    for (let i = 0; i < 3; i++) for (const result of [down, down, ok]) tried(result, i)
    tried(down, at)
    assert.equal(health.circuit, expected)
  }
})

test('a probe that succeeds closes it, and the rate climbs instead of jumping', () => {
  const { health, tried, told } = patient()
  for (let i = 0; i < 3; i++) tried(down, 0)
  assert.equal(health.probing, true)
  tried(ok, 1000)
  assert.deepEqual(told, ['opened (failures)', 'half_open', 'closed (probe)'])
  assert.equal(health.probing, false)
  assert(health.pace)
  assert.ok(Math.abs(health.pace.rateAt(1000) - 0.005) < 1e-9)
  assert.equal(health.pace.rateAt(3000), 0.1)
  tried(ok, 3001)
  assert.equal(health.pace, undefined)
})

test('each probe that fails doubles the time, up to the cap, and a relapse goes on where it was', () => {
  const { health, tried } = patient({ circuit: { ...policy, maxOpenMs: 6000 } })
  const waits: number[] = []
  let now = 0
  for (let i = 0; i < 3; i++) tried(down, now)
  for (let i = 0; i < 5; i++) {
    waits.push(health.silentUntil - now)
    now = health.silentUntil
    tried(down, now)
  }
  assert.deepEqual(waits, [1000, 2000, 4000, 5000, 5000])
  now = health.silentUntil
  tried(ok, now)
  for (let i = 0; i < 3; i++) tried(down, now + 100)
  assert.equal(health.silentUntil - now - 100, 5000, 'it fell ill again before it was well')
  now = health.silentUntil
  tried(ok, now)
  for (let i = 0; i < 3; i++) tried(down, now + 2001)
  assert.equal(health.silentUntil - now - 2001, 1000, 'that was another illness')
})

test('a circuit stays open for its time or up to a fifth longer, and never longer than the longest time', () => {
  const anyRandom = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
  fc.assert(
    fc.property(
      fc.integer({ min: 1000, max: 9000 }),
      fc.array(anyRandom, { minLength: 1, maxLength: 9 }),
      (most, all) => {
        const health = new Health(null, 0, 0)
        const circuit = { ...policy, failures: 1, maxOpenMs: most }
        let now = 0
        for (const [i, random] of all.entries()) {
          health.began()
          health.ended(down, { startedAt: now, era: health.era }, { ...rules, circuit }, now, () => random)
          const openMs = health.silentUntil - now
          const least = Math.max(1000, Math.min(1000 * 2 ** i, most / 1.2))
          assert.ok(openMs >= least - 0.001 && openMs <= least * 1.2 + 0.001, `opening ${i} is ${openMs} ms`)
          // A difference of two instants has rounding errors of its own.
          assert.ok(openMs <= most + 0.001, `${openMs} ms is longer than the longest time ${most}`)
          now = health.silentUntil
        }
      },
    ),
  )
})

test('attempts that were under way when the circuit opened do not count as the probe', () => {
  const { health, tried, rules: its } = patient()
  const { era } = health
  for (let i = 0; i < 3; i++) tried(down, 0)
  const late = (result: Outcome) => health.ended(result, { startedAt: 0, era }, its, 500, noJitter)
  late(ok)
  late(down)
  assert.equal(health.circuit, 'open')
  health.began()
  late(ok)
  assert.equal(health.circuit, 'half_open')
  late(down)
  assert.equal(health.circuit, 'half_open')
})

test('a probe that was given up, or was asked for silence, is no verdict', () => {
  for (const result of [outcome('aborted'), outcome('internal'), outcome('refused', 503, 1000)]) {
    const { health, tried } = patient()
    for (let i = 0; i < 3; i++) tried(down, 0)
    tried(result, 1000)
    assert.equal(health.circuit, 'half_open')
    assert.equal(health.silentUntil, Number.NEGATIVE_INFINITY)
    assert.equal(health.probing, true)
    tried(ok, 1001)
    assert.equal(health.circuit, 'closed')
  }
})

test('a 429 without a hint halves the rate, once for all that was under way, and it climbs back', () => {
  const { health, tried } = patient()
  assert.ok(tried(crowded, 100), 'it is to be saved')
  assert(health.pace)
  assert.equal(health.pace.rateAt(100), 0.05)
  for (let i = 0; i < 16; i++) tried(crowded, 101 + i, 99)
  assert.equal(health.pace.rateAt(100), 0.05, 'they had left before')
  tried(crowded, 200, 150)
  assert.ok(Math.abs(health.pace.rateAt(200) - 0.025) < 0.0001)
  tried(ok, 200 + 60_000)
  assert.ok(health.pace.rateAt(60_200) > 0.07)
  tried(ok, 200 + 200_000)
  assert.equal(health.pace, undefined)
  assert.equal(health.circuit, 'closed', 'too much is no illness')
})

test('without a configured rate, a 429 halves the recent rate', () => {
  const { health, tried } = patient({ rate: undefined })
  for (let i = 0; i < 200; i++) tried(ok, i * 10)
  tried(crowded, 2000)
  assert(health.pace)
  const perSecond = health.pace.rateAt(2000) * 1000
  assert.ok(perSecond > 40 && perSecond < 60, `${perSecond} a second`)
})

test('an endpoint that does not adapt counts a 429 as a failure', () => {
  const { health, tried } = patient({ adaptive: false })
  for (let i = 0; i < 3; i++) tried(crowded, 0)
  assert.equal(health.circuit, 'open')
  assert.equal(health.pace, undefined)
})

test('without a policy nothing opens it, and taking the policy away closes it', () => {
  const { health, tried, note, told } = patient({ circuit: undefined })
  for (let i = 0; i < 1000; i++) tried(down, i)
  assert.equal(health.circuit, 'closed')
  const { health: other, tried: triedThere } = patient()
  for (let i = 0; i < 3; i++) triedThere(down, 0)
  note(other.follow({ ...rules, circuit: undefined }, 1))
  assert.deepEqual(told, ['closed (policy)'])
})

test('an operator opens it for good, closes it gently, and resets it at once', () => {
  const { health, note, told, tried } = patient()
  note(health.carryOut({ n: 1, action: 'open' }, rules, 0))
  assert.equal(health.silentUntil, Number.POSITIVE_INFINITY)
  assert.equal(note(health.carryOut({ n: 1, action: 'open' }, rules, 5)), undefined, 'a command is carried out once')
  assert.equal(health.follow({ ...rules, circuit: undefined }, 6), undefined)
  note(health.carryOut({ n: 2, action: 'close' }, rules, 10))
  assert.equal(health.circuit, 'closed')
  assert(health.pace)
  for (let i = 0; i < 3; i++) tried(down, 20)
  note(health.carryOut({ n: 3, action: 'reset' }, rules, 30))
  assert.deepEqual([health.circuit, health.pace, health.failures, health.openings], ['closed', undefined, 0, 0])
  assert.deepEqual(told, ['opened (operator)', 'closed (operator)', 'opened (failures)', 'closed (operator)'])
  assert.ok(health.carryOut({ n: 4, action: 'close' }, rules, 40), 'that it was carried out is saved')
  assert.equal(told.length, 4, 'what is closed is not closed again')
})

test('failing for long enough without one success disables; one success restarts the time', () => {
  const { health, tried } = patient({ circuit: undefined, disableAfterMs: 100_000 })
  tried(outcome('refused', 404), 0)
  tried(down, 99_999)
  tried(ok, 99_999)
  tried(down, 100_000)
  assert.equal(tried(down, 199_999)?.disableAfterFailingMs, undefined)
  assert.equal(tried(down, 200_000)?.disableAfterFailingMs, 100_000)
  assert.equal(health.failingSince, undefined)
})

test('that it fails is saved once it has for a minute, and that it no longer does at once', () => {
  const { tried } = patient({ circuit: undefined })
  assert.equal(tried(down, 0), undefined)
  assert.equal(tried(ok, 1), undefined, 'nobody knew')
  assert.equal(tried(down, 2), undefined)
  assert.ok(tried(down, 60_002))
  assert.equal(tried(down, 60_003), undefined)
  assert.ok(tried(ok, 60_004))
  assert.equal(tried(ok, 60_005), undefined)
})

test('a healthy receiver is nothing to save', () => {
  const { health, tried } = patient()
  for (let i = 0; i < 1000; i++) assert.equal(tried(ok, i), undefined)
  assert.equal(health.unsaved(1000), undefined)
  assert.equal(health.toText(1000), null)
})

test('the health of a released lane is saved when it changed', () => {
  const { health, tried } = patient()
  tried(down, 0)
  const text = health.unsaved(10)
  assert(typeof text === 'string')
  const heir = new Health(text, 0, 0)
  assert.equal(heir.failures, 1)
  assert.equal(heir.unsaved(10), undefined)
})

test('that failures ended is saved, too: the next owner does not go on counting them', () => {
  const { tried, health } = patient({}, new Health('{"failures":2}', 0, 0))
  tried(ok, 1)
  assert.equal(health.unsaved(2), null)
  const { tried: triedUnsaved, health: other } = patient({}, new Health('{"failures":2}', 0, 0))
  triedUnsaved(down, 1)
  assert.equal(other.circuit, 'open')
})

test('whatever an owner knew, the next one knows, less the time between', () => {
  const step = fc.record({
    wait: fc.integer({ min: 0, max: 4000 }),
    result: fc.constantFrom(ok, down, crowded, outcome('aborted'), outcome('refused', 503, 10)),
    order: fc.constantFrom(null, null, null, 'open', 'close', 'reset'),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), fc.integer({ min: 0, max: 10_000 }), (steps, ageMs) => {
      const { health, tried } = patient({ disableAfterMs: 20_000 })
      let now = 0
      let n = 0
      for (const { wait, result, order } of steps) {
        now += wait
        if (order !== null) health.carryOut({ n: ++n, action: order }, rules, now)
        if (health.silentUntil <= now) tried(result, now)
      }
      const heir = new Health(health.toText(now), ageMs, now + ageMs)
      const later = now + ageMs
      const facts = (one: Health) => [one.circuit, one.manual, one.failures, one.command]
      assert.deepEqual(facts(heir), facts(health))
      if (health.circuit === 'open' && !health.manual) assert.ok(heir.silentUntil >= health.silentUntil)
      const rate = (one: Health) => (one.pace === undefined || one.pace.endsAt <= later ? 0.1 : one.pace.rateAt(later))
      assert.ok(Math.abs(rate(heir) - rate(health)) < 1e-6)
      if (health.failingSince === undefined) assert.equal(heir.failingSince, undefined)
      else assert.ok(Math.abs((heir.failingSince as number) - health.failingSince) <= 1)
    }),
  )
})

test('an unreadable text counts as a new receiver', () => {
  for (const text of ['{', 'null', '7', '[]', '"open"']) assert.equal(new Health(text, 0, 0).circuit, 'closed')
})

test('whatever happens, open means silence, and the pace is never above the configured rate', () => {
  const step = fc.record({ wait: fc.integer({ min: 0, max: 3000 }), result: fc.constantFrom(ok, down, crowded) })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), fc.double({ min: 0, max: 0.999, noNaN: true }), (steps, chance) => {
      const health = new Health(null, 0, 0)
      let now = 0
      for (const { wait, result } of steps) {
        now += wait
        assert.equal(health.probing, health.circuit !== 'closed')
        if (health.circuit === 'open') assert.ok(health.silentUntil > Number.NEGATIVE_INFINITY)
        if (health.pace) assert.ok(health.pace.rateAt(now) <= 0.1 && health.pace.rateAt(now) > 0)
        if (health.silentUntil > now) continue
        health.began()
        assert.notEqual(health.circuit, 'open', 'what is sent while it is open is the probe')
        health.ended(result, { startedAt: now, era: health.era }, rules, now, () => chance)
      }
    }),
  )
})

test('by default a handful of failures opens nothing', () => {
  const { health, tried } = patient({ circuit: defaultCircuitPolicy })
  for (let i = 0; i < 19; i++) tried(down, i)
  assert.equal(health.circuit, 'closed')
  tried(down, 19)
  assert.equal(health.circuit, 'open')
})
