import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { missedPolicies, type ScheduleRun } from '../../src/features/schedules/noun.ts'
import { graceMs, nextTicks, planRuns, retryWaitMs, tickEventId, withRun } from '../../src/features/schedules/rules.ts'

const minute = 60_000
const hour = 60 * minute
const start = Date.parse('2026-11-15T00:00:00Z')
const hourly = { cron: '0 * * * *', timezone: 'UTC', missedLimit: 3, reachedAt: start, nextAt: null }

describe('which ticks are run', () => {
  test('none before its time, and the one whose time has come, whatever the policy', () => {
    for (const missed of missedPolicies) {
      assert.deepEqual(planRuns({ ...hourly, missed }, start + hour - 1), { ticks: [], skipped: null })
      assert.deepEqual(planRuns({ ...hourly, missed }, start + hour), { ticks: [start + hour], skipped: null })
      assert.deepEqual(planRuns({ ...hourly, missed }, start + hour + graceMs).ticks, [start + hour])
    }
  })

  test('skip leaves out missed ticks', () => {
    const skip = { ...hourly, missed: 'skip' as const }
    const late = start + hour + graceMs + 1
    assert.deepEqual(planRuns(skip, late), { ticks: [], skipped: { at: start + hour, count: 1 } })
    assert.deepEqual(planRuns(skip, start + 5 * hour), {
      ticks: [start + 5 * hour],
      skipped: { at: start + 4 * hour, count: 4 },
    })
  })

  test('once lets the newest stand for all', () => {
    const once = { ...hourly, missed: 'once' as const }
    assert.deepEqual(planRuns(once, start + 5 * hour + 30 * minute), {
      ticks: [start + 5 * hour],
      skipped: { at: start + 4 * hour, count: 4 },
    })
  })

  test('all runs each that was missed, up to the limit, and the one that is on time', () => {
    const all = { ...hourly, missed: 'all' as const }
    const ticks = (...hours: number[]) => hours.map((n) => start + n * hour)
    assert.deepEqual(planRuns(all, start + 3 * hour + 30 * minute), { ticks: ticks(1, 2, 3), skipped: null })
    assert.deepEqual(planRuns(all, start + 9 * hour), {
      ticks: ticks(6, 7, 8, 9),
      skipped: { at: start + 5 * hour, count: 5 },
    })
  })

  test('a change of the leader loses no tick of a schedule by the second, whatever the policy', () => {
    const everySecond = { ...hourly, cron: '* * * * * *' }
    const second = (n: number) => start + n * 1000
    for (const missed of missedPolicies) {
      const schedule = { ...everySecond, missed, nextAt: second(1) }
      const late = [1, 2, 3, 4, 5].map(second)
      assert.deepEqual(planRuns(schedule, second(5) + 300), { ticks: late, skipped: null })
      // A longer pause is made up for in steps: the rest stays due.
      const { ticks, skipped } = planRuns(schedule, second(250))
      assert.deepEqual([ticks.length, ticks[0], ticks.at(-1), skipped], [100, second(1), second(100), null])
      // Once a tick is missed, the policy decides about all.
      assert.ok(planRuns(schedule, second(1) + graceMs + 1000).ticks.length <= 4)
    }
  })

  test('a clock set back runs nothing twice', () => {
    for (const missed of missedPolicies) {
      assert.deepEqual(planRuns({ ...hourly, missed, reachedAt: start + 5 * hour }, start + 2 * hour).ticks, [])
    }
  })

  test('with @after there is one tick, which is run however late it is', () => {
    for (const missed of missedPolicies) {
      const after = { ...hourly, cron: '@after 5m', missed }
      assert.deepEqual(planRuns(after, start + hour), { ticks: [], skipped: null })
      const due = { ...after, nextAt: start + 5 * minute }
      assert.deepEqual(planRuns(due, start + 5 * minute - 1).ticks, [])
      assert.deepEqual(planRuns(due, start + 5 * minute).ticks, [start + 5 * minute])
      assert.deepEqual(planRuns(due, start + 50 * hour), { ticks: [start + 5 * minute], skipped: null })
    }
  })

  test('however often and whenever it is looked at, no tick is run twice, and with all none is lost', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...missedPolicies),
        fc.array(fc.integer({ min: 1, max: 40 * minute }), { minLength: 1, maxLength: 15 }),
        (missed, gaps) => {
          const timing = { cron: '*/10 * * * *', timezone: 'Europe/Berlin', missedLimit: 5, nextAt: null }
          let [now, reachedAt, skipped] = [start, start, 0]
          const run: number[] = []
          for (const gap of gaps) {
            now += gap
            const plan = planRuns({ ...timing, missed, reachedAt }, now)
            assert.ok(plan.ticks.every((tick) => tick > reachedAt && tick <= now))
            run.push(...plan.ticks)
            skipped += plan.skipped?.count ?? 0
            reachedAt = plan.ticks.at(-1) ?? plan.skipped?.at ?? reachedAt
          }
          assert.equal(new Set(run).size, run.length)
          assert.deepEqual(
            run,
            run.toSorted((a, b) => a - b),
          )
          const due = nextTicks(timing, start, 200).filter((tick) => tick <= now)
          assert.equal(run.length + skipped, due.length)
          if (missed === 'all') assert.equal(skipped, 0)
        },
      ),
      { numRuns: 20 },
    )
  })
})

test('a failed run is tried again after longer and longer, five minutes at most', () => {
  assert.deepEqual([1, 2, 3, 9, 1000].map(retryWaitMs), [2000, 4000, 8000, 300_000, 300_000])
})

test('the name of a tick is the same for everyone, and can be an eventId', () => {
  const name = tickEventId('sch_0123456789abcdefghijklmnopq', Date.parse('2026-11-15T07:30:00Z'))
  assert.equal(name, 'sch_0123456789abcdefghijklmnopq-20261115T073000Z')
  assert.match(name, /^(?!msg_)[a-zA-Z0-9\-_]{1,256}$/)
})

test('failures of one tick are one run', () => {
  const run = (at: number, state: ScheduleRun['state']): ScheduleRun => ({
    at,
    state,
    ranAt: 0,
    trigger: 'cron',
    message: null,
    error: null,
    count: 1,
  })
  const runs = [run(1, 'failed'), run(1, 'failed'), run(1, 'published'), run(2, 'failed')].reduce<ScheduleRun[]>(
    withRun,
    [],
  )
  assert.deepEqual(
    runs.map(({ at, state, count }) => [at, state, count]),
    [
      [2, 'failed', 1],
      [1, 'published', 1],
      [1, 'failed', 2],
    ],
  )
})
