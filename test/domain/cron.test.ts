import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { nextTicks, ticksBetween, timingProblem } from '../../src/features/schedules/rules.ts'

const iso = (ticks: readonly number[]) => ticks.map((tick) => new Date(tick).toISOString().slice(0, 16))
const from = (timezone: string, cron: string, after: string, count: number) =>
  iso(nextTicks({ cron, timezone }, Date.parse(`${after}Z`), count))

describe('ticks over changes of daylight saving time', () => {
  test('a time that the clock leaps over runs at the moment it leaps', () => {
    // Berlin goes from 02:00 to 03:00 at 01:00 UTC.
    assert.deepEqual(from('Europe/Berlin', '30 2 * * *', '2026-03-28T00:00', 3), [
      '2026-03-28T01:30',
      '2026-03-29T01:00',
      '2026-03-30T00:30',
    ])
    assert.deepEqual(from('Europe/Berlin', '0 2 * * *', '2026-03-28T12:00', 2), [
      '2026-03-29T01:00',
      '2026-03-30T00:00',
    ])
    // New York does at 07:00 UTC.
    assert.deepEqual(from('America/New_York', '30 2 * * *', '2026-03-07T00:00', 3), [
      '2026-03-07T07:30',
      '2026-03-08T07:00',
      '2026-03-09T06:30',
    ])
    // Lord Howe leaps half an hour, from 02:00 to 02:30.
    assert.deepEqual(from('Australia/Lord_Howe', '15 2 * * *', '2026-10-02T00:00', 3), [
      '2026-10-02T15:45',
      '2026-10-03T15:30',
      '2026-10-04T15:15',
    ])
  })

  test('a time that comes twice runs the first time', () => {
    assert.deepEqual(from('Europe/Berlin', '30 2 * * *', '2026-10-24T00:00', 3), [
      '2026-10-24T00:30',
      '2026-10-25T00:30',
      '2026-10-26T01:30',
    ])
    assert.deepEqual(from('America/New_York', '30 1 * * *', '2026-10-31T00:00', 3), [
      '2026-10-31T05:30',
      '2026-11-01T05:30',
      '2026-11-02T06:30',
    ])
    assert.deepEqual(from('Australia/Lord_Howe', '45 1 * * *', '2026-04-03T00:00', 3), [
      '2026-04-03T14:45',
      '2026-04-04T14:45',
      '2026-04-05T15:15',
    ])
  })

  test('an hourly schedule follows elapsed time over a clock change: every hour once, without a gap', () => {
    const cases = [
      ['Europe/Berlin', '*/30 * * * *', '2026-03-28T22:00', 30],
      ['Europe/Berlin', '*/30 * * * *', '2026-10-24T22:00', 30],
      ['Europe/Berlin', '0 * * * *', '2026-10-24T22:00', 60],
      ['America/New_York', '*/15 * * * *', '2026-11-01T04:00', 15],
      ['Australia/Lord_Howe', '*/15 * * * *', '2026-04-04T13:00', 15],
      ['Australia/Lord_Howe', '*/15 * * * *', '2026-10-03T14:00', 15],
    ] as const
    for (const [timezone, cron, after, minutes] of cases) {
      const ticks = nextTicks({ cron, timezone }, Date.parse(`${after}Z`), 20)
      for (let i = 1; i < ticks.length; i++) {
        assert.equal((ticks[i] as number) - (ticks[i - 1] as number), minutes * 60_000, `${timezone} ${cron}`)
      }
    }
  })

  test('a leap day comes every four years', () => {
    assert.deepEqual(from('UTC', '0 0 29 2 *', '2026-01-01T00:00', 2), ['2028-02-29T00:00', '2032-02-29T00:00'])
  })
})

test('looking back finds the same ticks as looking ahead, in every zone and over every change', () => {
  const zones = [
    'UTC',
    'Europe/Berlin',
    'America/New_York',
    'Australia/Lord_Howe',
    'Asia/Kathmandu',
    'America/St_Johns',
  ]
  const crons = ['* * * * *', '*/15 * * * *', '0 * * * *', '30 2 * * *', '0 2-4 * * *', '15 1,2 * * SUN', '0 0 1 * *']
  const start = Date.parse('2026-03-01T00:00:00Z')
  fc.assert(
    fc.property(
      fc.constantFrom(...zones),
      fc.constantFrom(...crons),
      fc.integer({ min: 0, max: 270 * 24 * 60 }),
      fc.integer({ min: 0, max: 59_999 }),
      (timezone, cron, minutes, ms) => {
        const timing = { timezone, cron }
        const after = start + minutes * 60_000 + ms
        const ahead = nextTicks(timing, after, 12)
        const last = ahead.at(-1) as number
        assert.deepEqual(ticksBetween(timing, after, last, 12), ahead)
        // Neither the tick it begins behind nor the one after the end is among them.
        assert.deepEqual(ticksBetween(timing, last, last + 59_999, 12), [])
        assert.deepEqual(ticksBetween(timing, after, last - 1, 12), ahead.slice(0, -1))
      },
    ),
    { numRuns: 150 },
  )
})

test('an expression of six fields begins with seconds', () => {
  const timing = { cron: '*/20 59 23 * * *', timezone: 'UTC' }
  const after = Date.parse('2026-11-15T23:59:10.500Z')
  const ticks = nextTicks(timing, after, 3)
  assert.deepEqual(
    ticks.map((tick) => new Date(tick).toISOString()),
    ['2026-11-15T23:59:20.000Z', '2026-11-15T23:59:40.000Z', '2026-11-16T23:59:00.000Z'],
  )
  const [first = 0, second = 0, third = 0] = ticks
  assert.deepEqual(ticksBetween(timing, after, third, 12), ticks)
  assert.deepEqual(ticksBetween(timing, first, second, 12), [second], 'the instant of the end is among them')
  assert.deepEqual(ticksBetween(timing, first, second - 1, 12), [])
})

test('a problem of a timing names its field', () => {
  const problem = (cron: string, timezone = 'UTC') => timingProblem({ cron, timezone }, 0)
  for (const cron of [
    '0 7 * * *',
    '*/5 0-6,18-23 * JAN-MAR MON-FRI',
    ' 0  0 L * * ',
    '0 0 29 2 *',
    '0 0 * * 7',
    '0 0 * * 5#2',
    '* * * * * *',
    '*/15 30 7 * * MON-FRI',
    '@after 5s',
    ' @after  30d ',
    '@after 0 * * * *',
    '@after */5 30 7 * * MON-FRI',
  ]) {
    assert.equal(problem(cron), undefined, cron)
  }
  for (const cron of [
    '',
    '* * * *',
    '* * * * * * *',
    '60 * * * * *',
    '@after',
    '@after 4s',
    '@after 31d',
    '@after -5m',
    '@after 5',
    '@after 5m 5s',
    '@after 1e9s',
    '@after 0 0 30 2 *',
    '@after * * * *',
    '@after @after 5m',
    '@daily',
    '@reboot',
    '60 * * * *',
    '*/0 * * * *',
    '0 24 * * *',
    'a b c d e',
    '? * * * *',
    '0 0 30 2 *',
    '0 0 31 4,6,9,11 *',
    '0 0 * 13 *',
    '5-1 * * * *',
  ]) {
    assert.equal(problem(cron)?.field, 'cron', cron)
  }
  for (const zone of ['', 'Mars/Base', '+01:00', 'Europe', '../etc', 'UTC\n']) {
    assert.equal(problem('0 0 * * *', zone)?.field, 'timezone', zone)
  }
})
