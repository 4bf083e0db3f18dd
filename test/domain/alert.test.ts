import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  type AlertBook,
  type AlertReading,
  type AlertRule,
  type Announcement,
  breaches,
  resolvedKeptMs,
  type Silence,
  stepAlerts,
} from '../../src/features/alerts/rules.ts'

const minute = 60_000
const rule: AlertRule = {
  name: 'waiting',
  figure: 'waiting',
  severity: 'warning',
  side: 'above',
  threshold: 1000,
  clear: 800,
  holdMs: 5 * minute,
  clearMs: minute,
}

function reading(value: number, subject = ''): AlertReading {
  return { subject, value, sentence: `${value} wait.`, command: 'sluice why', app: null, endpoint: null }
}

/** Alerts in memory, stepped as the leader does over a store. */
class Scene {
  book: AlertBook = { now: 0, alerts: [], silences: [] }
  readonly announced: { readonly at: number; readonly subject: string; readonly what: Announcement }[] = []
  rules: readonly AlertRule[]

  constructor(rules: readonly AlertRule[] = [rule]) {
    this.rules = rules
  }

  step(
    now: number,
    readings: readonly AlertReading[] | undefined,
    silences: readonly Silence[] = this.book.silences,
  ): void {
    const changes = stepAlerts(this.rules, { ...this.book, now, silences }, () => readings)
    const alerts = new Map(this.book.alerts.map((alert) => [`${alert.rule} ${alert.subject}`, alert]))
    for (const { rule, subject, version, state, announce } of changes) {
      const key = `${rule} ${subject}`
      assert.equal(version, alerts.get(key)?.version ?? 0)
      if (announce !== null) this.announced.push({ at: now, subject, what: announce })
      if (state === null) alerts.delete(key)
      else alerts.set(key, { rule, subject, version: version + 1, state })
    }
    this.book = { now, alerts: [...alerts.values()], silences }
  }

  get phases(): string[] {
    return this.book.alerts.map(({ state }) => state.phase)
  }

  get told(): string[] {
    return this.announced.map(({ what }) => what)
  }
}

describe('an alert', () => {
  test('fires once the trouble has lasted for the hold time, and not before', () => {
    const scene = new Scene()
    scene.step(0, [reading(1001)])
    scene.step(5 * minute - 1, [reading(5000)])
    assert.deepEqual([scene.phases, scene.told], [['pending'], []])
    scene.step(5 * minute, [reading(2000)])
    assert.deepEqual([scene.phases, scene.told], [['firing'], ['firing']])
    assert.equal(scene.book.alerts[0]?.state.sentence, '2000 wait.')
  })

  test('does not fire at the threshold itself, and starts again after a pause of the trouble', () => {
    const scene = new Scene()
    scene.step(0, [reading(1000)])
    assert.deepEqual(scene.phases, [])
    scene.step(minute, [reading(1001)])
    scene.step(4 * minute, [reading(1000)])
    assert.deepEqual(scene.phases, [])
    scene.step(5 * minute, [reading(1001)])
    scene.step(9 * minute, [reading(1001)])
    assert.deepEqual(scene.phases, ['pending'])
  })

  test('resolves only once the figure stays clear, not when it is merely below the threshold', () => {
    const scene = new Scene([{ ...rule, holdMs: 0 }])
    scene.step(0, [reading(1001)])
    for (let at = 1; at < 60; at++) scene.step(at * minute, [reading(at % 2 === 0 ? 900 : 1100)])
    assert.deepEqual(scene.told, ['firing'], 'a figure between clear and threshold is no news')
    scene.step(60 * minute, [reading(800)])
    scene.step(60 * minute + 30_000, [reading(801)])
    scene.step(61 * minute, [reading(800)])
    assert.deepEqual(scene.phases, ['firing'])
    scene.step(62 * minute, [reading(800)])
    assert.deepEqual([scene.phases, scene.told], [['resolved'], ['firing', 'resolved']])
  })

  test('exists once for each subject, and a subject that is gone has no trouble', () => {
    const scene = new Scene([{ ...rule, holdMs: 0, clearMs: 0 }])
    scene.step(0, [reading(2000, 'a'), reading(2000, 'b')])
    scene.step(1, [reading(2000, 'b')])
    assert.deepEqual(
      scene.announced.map(({ subject, what }) => `${subject} ${what}`),
      ['a firing', 'b firing', 'a resolved'],
    )
  })

  test('stays as it is while its figure is unknown', () => {
    const scene = new Scene([{ ...rule, holdMs: 0, clearMs: 0 }])
    scene.step(0, [reading(2000)])
    scene.step(minute, undefined)
    assert.deepEqual([scene.phases, scene.told], [['firing'], ['firing']])
  })

  test('within a silence is announced when the silence is over, if it still fires', () => {
    const silence = { id: 's', rule: 'waiting', subject: null, from: 0, until: 10 * minute }
    const scene = new Scene([{ ...rule, holdMs: 0, clearMs: 0 }])
    scene.step(0, [reading(2000)], [silence])
    scene.step(9 * minute, [reading(2000)])
    assert.deepEqual([scene.phases, scene.told], [['firing'], []])
    scene.step(10 * minute, [reading(2000)])
    scene.step(11 * minute, [reading(2000)])
    assert.deepEqual(scene.told, ['firing'])
  })

  test('that came and went within a silence is not announced; one that was announced resolves aloud', () => {
    const silence = { id: 's', rule: null, subject: null, from: minute, until: 10 * minute }
    const scene = new Scene([{ ...rule, holdMs: 0, clearMs: 0 }])
    scene.step(0, [reading(2000)], [silence])
    scene.step(2 * minute, [reading(0)])
    assert.deepEqual(scene.told, ['firing', 'resolved'])
    scene.step(3 * minute, [reading(2000)])
    scene.step(4 * minute, [reading(0)])
    assert.deepEqual(scene.told, ['firing', 'resolved'])
  })

  test('is silenced by its rule and its subject', () => {
    const scene = new Scene([{ ...rule, holdMs: 0 }])
    const silences = [
      { id: '1', rule: 'other', subject: null, from: 0, until: minute },
      { id: '2', rule: null, subject: 'b', from: 0, until: minute },
    ]
    scene.step(0, [reading(2000, 'a'), reading(2000, 'b')], silences)
    assert.deepEqual(
      scene.announced.map(({ subject }) => subject),
      ['a'],
    )
  })

  test('of a rule that is gone resolves', () => {
    const scene = new Scene([{ ...rule, holdMs: 0 }])
    scene.step(0, [reading(2000)])
    scene.rules = []
    scene.step(1, [])
    assert.deepEqual(scene.told, ['firing', 'resolved'])
  })

  test('that resolved is kept for a week, and then forgotten', () => {
    const scene = new Scene([{ ...rule, holdMs: 0, clearMs: 0 }])
    scene.step(0, [reading(2000)])
    scene.step(1, [reading(0)])
    scene.step(resolvedKeptMs, [reading(0)])
    assert.deepEqual(scene.phases, ['resolved'])
    scene.step(resolvedKeptMs + 2, [reading(0)])
    assert.deepEqual(scene.phases, [])
  })

  test('about a figure that is too low works the same way', () => {
    const low: AlertRule = { ...rule, side: 'below', threshold: 100, clear: 120, holdMs: 0, clearMs: 0 }
    const scene = new Scene([low])
    for (const [at, value] of [100, 99, 110, 119, 120].entries()) scene.step(at, [reading(value)])
    assert.deepEqual(
      scene.announced.map(({ at, what }) => [at, what]),
      [
        [1, 'firing'],
        [4, 'resolved'],
      ],
    )
  })

  test('waits no longer than the hold time after the clock was set back', () => {
    const scene = new Scene()
    scene.step(100 * minute, [reading(2000)])
    scene.step(10 * minute, [reading(2000)])
    scene.step(20 * minute, [reading(2000)])
    assert.deepEqual(scene.told, ['firing'])
  })
})

const steps = fc.array(
  fc.record({
    waitMs: fc.integer({ min: 0, max: 4 * minute }),
    value: fc.oneof(fc.integer({ min: 0, max: 2000 }), fc.constant(undefined)),
    silenced: fc.boolean(),
  }),
  { minLength: 1, maxLength: 60 },
)

test('whatever the figures, announcements alternate, and each rests on its hold or clear time', () => {
  fc.assert(
    fc.property(steps, (taken) => {
      const scene = new Scene()
      const seen: { at: number; value: number }[] = []
      let now = 0
      for (const { waitMs, value, silenced } of taken) {
        now += waitMs
        if (value !== undefined) seen.push({ at: now, value })
        const silence = { id: 's', rule: null, subject: null, from: now, until: now + 1 }
        scene.step(now, value === undefined ? undefined : [reading(value)], silenced ? [silence] : [])
      }
      for (const [i, { what }] of scene.announced.entries()) {
        assert.equal(what, i % 2 === 0 ? 'firing' : 'resolved')
      }
      for (const { at, what } of scene.announced) {
        if (what === 'resolved') {
          const clear = seen.filter((each) => each.at > at - rule.clearMs && each.at <= at)
          assert.ok(clear.every(({ value }) => value <= rule.clear))
        }
      }
      const first = scene.book.alerts[0]?.state.firedAt
      if (first != null) {
        const held = seen.filter(({ at }) => at > first - rule.holdMs && at <= first)
        assert.ok(held.every(({ value }) => breaches(rule, value)))
      }
    }),
  )
})

test('stepping twice with the same figures at the same instant changes nothing more', () => {
  fc.assert(
    fc.property(steps, (taken) => {
      const scene = new Scene()
      let now = 0
      for (const { waitMs, value } of taken) {
        now += waitMs
        const readings = value === undefined ? undefined : [reading(value)]
        scene.step(now, readings)
        assert.deepEqual(
          stepAlerts([rule], scene.book, () => readings),
          [],
        )
      }
    }),
  )
})
