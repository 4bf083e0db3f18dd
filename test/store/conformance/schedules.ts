import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../../../src/domain/app-error.ts'
import { keyTime } from '../../../src/domain/ids.ts'
import type { NewSchedule, Schedule } from '../../../src/features/schedules/noun.ts'
import type { ScheduleStep } from '../../../src/features/schedules/rows.ts'
import { begin, type Open, type World } from './harness.ts'

const minute = 60_000

export const plainSchedule: NewSchedule = {
  uid: null,
  cron: '* * * * *',
  timezone: 'Europe/Berlin',
  eventType: 'report.due',
  body: new TextEncoder().encode('{"total": 1.0}'),
  contentType: 'application/json',
  headers: { 'x-team': 'x' },
  channels: ['a'],
  tags: ['t'],
  endpoint: null,
  missed: 'once',
  missedLimit: 3,
  paused: false,
  metadata: { team: 'x' },
}

export function schedules(open: Open): void {
  test('a schedule is kept as it was made, and found by its id or uid within its application', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const [app, other] = [await world.application(), await world.application()]
    const made = await store.createSchedule(app.key, { ...plainSchedule, uid: 'daily' })
    assert.match(made.id, /^sch_/)
    const found = await store.findSchedule(app.key, made.id)
    assert.deepEqual({ ...found, body: Buffer.from(found?.body ?? []) }, { ...made, body: Buffer.from(made.body) })
    assert.equal((await store.findSchedule(app.key, 'daily'))?.id, made.id)
    assert.equal(await store.findSchedule(other.key, made.id), undefined)
    assert.equal(await store.findSchedule(other.key, 'daily'), undefined)
    assert.equal(Buffer.from(found?.body ?? []).toString(), '{"total": 1.0}')
    // It begins with the first tick after it was made.
    assert(made.nextAt !== null && made.nextAt > made.reachedAt && made.nextAt <= made.reachedAt + minute)
    await assert.rejects(store.createSchedule(app.key, { ...plainSchedule, uid: 'daily' }), conflict)
    await store.createSchedule(other.key, { ...plainSchedule, uid: 'daily' })
    await assert.rejects(store.createSchedule(4711, plainSchedule), (error: AppError) => error.code === 'not_found')
  })

  test('schedules are listed by key, within their application', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const [app, other] = [await world.application(), await world.application()]
    const keys: number[] = []
    for (let i = 0; i < 3; i++) keys.push((await store.createSchedule(app.key, plainSchedule)).key)
    await store.createSchedule(other.key, plainSchedule)
    const up = await store.listSchedules(app.key, { limit: 2, order: 'ascending', after: null })
    assert.deepEqual([up.items.map((item) => item.key), up.done], [keys.slice(0, 2), false])
    const down = await store.listSchedules(app.key, { limit: 5, order: 'descending', after: keys[2] as number })
    assert.deepEqual([down.items.map((item) => item.key), down.done], [keys.slice(0, 2).reverse(), true])
    const all = await store.listSchedules(null, { limit: 3, order: 'descending', after: null })
    assert.deepEqual([all.items.map((item) => item.app), all.done], [[other.key, app.key, app.key], false])
  })

  test('another timing and the end of a pause start a schedule from now; other changes do not', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const { key } = await world.application()
    const made = await store.createSchedule(key, plainSchedule)
    await world.harness.sql('update schedule set reached_at = 60000, next_at = 120000, due_at = 120000')
    const renamed = await store.updateSchedule(key, made.key, { eventType: 'other' })
    assert.deepEqual([renamed?.eventType, renamed?.reachedAt, renamed?.cron], ['other', 60_000, '* * * * *'])
    const paused = await store.updateSchedule(key, made.key, { paused: true })
    assert.equal(paused?.paused, true)
    assert.deepEqual((await store.dueSchedules(10)).schedules, [])
    const resumed = await store.updateSchedule(key, made.key, { paused: false })
    assert(resumed && resumed.reachedAt > 60_000 && (resumed.nextAt as number) > resumed.reachedAt)
    assert.deepEqual((await store.dueSchedules(10)).schedules, [])
    await world.harness.sql('update schedule set reached_at = 60000, next_at = 120000, due_at = 120000')
    const retimed = await store.updateSchedule(key, made.key, { cron: '0 3 * * *' })
    assert(retimed && retimed.reachedAt > 60_000)
    assert.equal(retimed.revision, made.revision + 4)
    await store.createSchedule(key, { ...plainSchedule, uid: 'taken' })
    await assert.rejects(store.updateSchedule(key, made.key, { uid: 'taken' }), conflict)
    assert.equal(await store.updateSchedule(4711, made.key, { paused: true }), undefined)
    assert.equal(await store.updateSchedule(key, 4711, { paused: true }), undefined)
  })

  test('a schedule is deleted once, and with its application', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const [one, two] = [await dueSchedule(world, app.key), await dueSchedule(world, app.key)]
    assert.equal(await store.deleteSchedule(4711, one.key), false)
    assert.equal(await store.deleteSchedule(app.key, one.key), true)
    assert.equal(await store.deleteSchedule(app.key, one.key), false)
    assert.deepEqual((await store.advanceSchedule(one, skipping(one))).state, 'moved')
    await store.deleteApplication(app.key)
    assert.equal(await store.findSchedule(app.key, two.id), undefined)
    assert.deepEqual((await store.dueSchedules(10)).schedules, [])
    await assert.rejects(store.createSchedule(app.key, plainSchedule), (error: AppError) => error.code === 'not_found')
  })

  test('due schedules are listed with the time, the longest waiting first, and when the next one is due', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    assert.deepEqual((await store.dueSchedules(10)).nextInMs, undefined)
    const later = await store.createSchedule(app.key, plainSchedule)
    const { now, schedules: none, nextInMs } = await store.dueSchedules(10)
    assert.deepEqual(none, [])
    assert(nextInMs !== undefined && nextInMs <= minute && now + nextInMs === later.nextAt)
    const second = await dueSchedule(world, app.key, 120_000)
    const first = await dueSchedule(world, app.key, 60_000)
    const { schedules: due } = await store.dueSchedules(10)
    assert.deepEqual(
      due.map(({ key, appId }) => [key, appId]),
      [first.key, second.key].map((key) => [key, app.id]),
    )
    assert.equal((await store.dueSchedules(1)).schedules.length, 1)
  })

  test('a tick publishes and moves the schedule on in one', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const endpoint = await world.endpoint(await world.application())
    const schedule = await dueSchedule(world, endpoint.app)
    const publication = await world.publication([endpoint], { eventId: 'tick-1', body: schedule.body })
    const answer = await store.advanceSchedule(schedule, publishing(schedule, publication))
    assert(answer.state === 'accepted')
    const after = await store.findSchedule(endpoint.app, schedule.id)
    assert.equal(after?.reachedAt, 120_000)
    assert.equal(after?.nextAt, 180_000)
    assert.equal(after?.revision, schedule.revision + 1)
    const { ranAt, ...run } = after?.runs[0] ?? assert.fail('no run')
    assert(ranAt > 120_000)
    const published = { at: 120_000, state: 'published', trigger: 'cron', message: answer.id, error: null, count: 1 }
    assert.deepEqual(run, published)
    assert.deepEqual(await store.counts(), { pending: 1, dead: 0, messages: 1, attempts: 0 })
    assert.equal((await world.head(endpoint)).message, answer.key)
  })

  test('with @after the next tick is known once the deliveries have ended; until then it is looked at in a while', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const endpoint = await world.endpoint(await world.application())
    const made = await store.createSchedule(endpoint.app, { ...plainSchedule, cron: '@after 10s' })
    assert.equal(made.nextAt, made.reachedAt + 10_000)
    await world.harness.sql('update schedule set reached_at = 60000, next_at = 70000, due_at = 70000')
    const due = (await store.findSchedule(endpoint.app, made.id)) as Schedule
    const publication = await world.publication([endpoint])
    await store.advanceSchedule(due, { ...publishing(due, publication), reachedAt: 70_000 })

    const isWaiting = async (schedule: Schedule) => {
      assert.equal(schedule.nextAt, null)
      const { schedules: none, nextInMs = 0 } = await store.dueSchedules(10)
      assert.deepEqual(none, [])
      assert(nextInMs > 0 && nextInMs <= 5000, `looked at again in ${nextInMs} ms`)
    }
    const read = async () => (await store.findSchedule(endpoint.app, made.id)) as Schedule
    await isWaiting(await read())
    // Neither a change, nor another look, nor a run by hand lets it be forgotten.
    await store.updateSchedule(endpoint.app, made.key, { eventType: 'other' })
    await isWaiting(await read())
    const still = { publication: null, runs: [], reachedAt: null, retryInMs: null }
    await store.advanceSchedule(await read(), still)
    await isWaiting(await read())

    await store.advanceSchedule(await read(), { ...still, nextAt: 95_000 })
    const known = await read()
    assert.deepEqual([known.nextAt, known.reachedAt, known.failures], [95_000, 70_000, 0])
    assert.deepEqual((await store.dueSchedules(10)).schedules.length, 1)
    await store.updateSchedule(endpoint.app, made.key, { paused: true })
    const resumed = await store.updateSchedule(endpoint.app, made.key, { paused: false })
    assert.equal(resumed?.nextAt, (resumed?.reachedAt ?? 0) + 10_000)
  })

  test('the deliveries of a message have ended when none of them is queued', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const [one, two] = [await world.endpoint(app), await world.endpoint(app)]
    const worker = await world.join()
    const { key } = await world.publish([one, two])
    await world.claim(worker)
    const end = () => store.deliveriesEnd(key, 0)
    assert.equal(await end(), undefined)
    await world.settle(worker, world.settlement(one, await world.head(one), { state: 'delivered' }))
    assert.equal(await end(), undefined, 'one is fresh')
    await world.settle(worker, world.settlement(two, await world.head(two), { state: 'waiting', waitMs: 0 }))
    assert.equal(await end(), undefined, 'one waits for its retry')
    await world.pass(5)
    await world.settle(worker, world.settlement(two, await world.head(two, 1), { state: 'dead', reason: 'exhausted' }))
    const letter = await store.findDead(two.key, key)
    assert.deepEqual(await end(), { at: letter?.diedAt, allDelivered: false, next: null })
    await store.replay([{ endpoint: two.key, message: key }])
    assert.equal(await end(), undefined, 'one is replayed')
    await world.settle(worker, world.settlement(two, await world.head(two, 2), { state: 'delivered' }))
    const [last] = await store.latestAttempts([{ endpoint: two.key, message: key }])
    const endedAt = Math.max(keyTime(key), (last?.at ?? 0) + 20)
    assert.deepEqual(await end(), { at: endedAt, allDelivered: true, next: null })
    const none = await world.publish([], { app: app.key })
    assert.deepEqual(await store.deliveriesEnd(none.key, 0), {
      at: keyTime(none.key),
      allDelivered: true,
      next: null,
    })
    assert.equal((await store.deliveriesEnd(4711, 0))?.next, null, 'there is no such message')
  })

  test('of many who run the same tick at once, one does', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const endpoint = await world.endpoint(await world.application())
    const schedule = await dueSchedule(world, endpoint.app)
    const publication = await world.publication([endpoint])
    const step = publishing(schedule, publication)
    const answers = await Promise.all(Array.from({ length: 6 }, () => store.advanceSchedule(schedule, step)))
    assert.deepEqual(answers.map((answer) => answer.state).sort(), ['accepted', ...Array(5).fill('moved')])
    assert.equal((await store.counts()).messages, 1)
    // And none does for a schedule that was changed since it was read.
    const [again] = (await store.dueSchedules(1)).schedules
    assert(again)
    await store.updateSchedule(endpoint.app, again.key, { eventType: 'changed' })
    assert.equal((await store.advanceSchedule(again, publishing(again, publication))).state, 'moved')
    assert.equal((await store.counts()).messages, 1)
  })

  test('a tick whose message exists already moves the schedule on and names that message', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const endpoint = await world.endpoint(await world.application())
    const schedule = await dueSchedule(world, endpoint.app)
    const earlier = await world.publish([endpoint], { eventId: 'tick-1' })
    const publication = await world.publication([endpoint], { eventId: 'tick-1' })
    const answer = await store.advanceSchedule(schedule, publishing(schedule, publication))
    assert.deepEqual(answer, { state: 'conflict', id: earlier.id })
    const after = await store.findSchedule(endpoint.app, schedule.id)
    assert.deepEqual([after?.reachedAt, after?.runs[0]?.message], [120_000, earlier.id])
    assert.equal((await store.counts()).messages, 1)
  })

  test('a publication that is out of date leaves the schedule as it was', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const endpoint = await world.endpoint(await world.application())
    const schedule = await dueSchedule(world, endpoint.app)
    const publication = await world.publication([endpoint])
    await world.endpoint({ key: endpoint.app } as never)
    assert.equal((await store.advanceSchedule(schedule, publishing(schedule, publication))).state, 'stale')
    assert.equal((await store.findSchedule(endpoint.app, schedule.id))?.reachedAt, 60_000)
    assert.equal((await store.counts()).messages, 0)
  })

  test('a failure is remembered and tried again later; the tick is still to come', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const schedule = await dueSchedule(world, app.key)
    const error = 'there is no room'
    const failing: ScheduleStep = {
      publication: null,
      runs: [{ at: 120_000, state: 'failed', trigger: 'cron', error, count: 1 }],
      reachedAt: null,
      retryInMs: 200,
    }
    assert.equal((await store.advanceSchedule(schedule, failing)).state, 'advanced')
    const failed = await store.findSchedule(app.key, schedule.id)
    assert(failed)
    assert.deepEqual([failed.reachedAt, failed.failures, failed.runs.length], [60_000, 1, 1])
    assert.deepEqual([failed.runs[0]?.error, failed.runs[0]?.message], [error, null])
    assert.deepEqual((await store.dueSchedules(10)).schedules, [])
    await world.pass(250)
    const [again] = (await store.dueSchedules(10)).schedules
    assert.equal(again?.key, schedule.key)
    // The second failure of the same tick is no second entry.
    await store.advanceSchedule(failed, failing)
    const twice = await store.findSchedule(app.key, schedule.id)
    assert.deepEqual([twice?.failures, twice?.runs.length, twice?.runs[0]?.count], [2, 1, 2])
    await store.advanceSchedule(twice as Schedule, skipping(twice as Schedule))
    const done = await store.findSchedule(app.key, schedule.id)
    assert.deepEqual([done?.failures, done?.reachedAt, done?.runs.length], [0, 120_000, 2])
  })

  test('a run by hand leaves the ticks alone, and only the last twenty runs are kept', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const endpoint = await world.endpoint(await world.application())
    let schedule: Schedule = await store.createSchedule(endpoint.app, { ...plainSchedule, paused: true })
    const { reachedAt, nextAt } = schedule
    let last = ''
    for (let i = 0; i < 22; i++) {
      const publication = await world.publication([endpoint])
      const runs = [{ at: 0, state: 'published', trigger: 'manual', error: null, count: 1 }] as const
      const answer = await store.advanceSchedule(schedule, { publication, runs, reachedAt: null, retryInMs: null })
      assert(answer.state === 'accepted')
      last = answer.id
      schedule = (await store.findSchedule(endpoint.app, schedule.id)) as Schedule
    }
    assert.deepEqual([schedule.reachedAt, schedule.nextAt, schedule.paused], [reachedAt, nextAt, true])
    assert.equal(schedule.runs.length, 20)
    assert.equal(schedule.runs[0]?.message, last)
    assert(schedule.runs.every((run) => run.at === run.ranAt && run.at > 0))
    assert.deepEqual((await store.dueSchedules(10)).schedules, [])
  })

  test('an application has a thousand schedules and no more', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    await world.store.createSchedule(app.key, plainSchedule)
    const rest =
      'cron, timezone, event_type, body, content_type, missed, missed_limit, paused, metadata, reached_at, created_at, updated_at'
    await world.harness.sql(`
      with recursive counted (i) as (select 1 union all select i + 1 from counted where i < 998)
      insert into schedule (key, id, app, ${rest}) select key + i, id, app, ${rest} from schedule, counted`)
    await world.store.createSchedule(app.key, plainSchedule)
    await assert.rejects(world.store.createSchedule(app.key, plainSchedule), {
      name: 'AppError',
      code: 'quota_exceeded',
    })
  })
}

/** A schedule whose tick at `dueAt` has come. */
async function dueSchedule(world: World, app: number, dueAt = 120_000): Promise<Schedule> {
  const made = await world.store.createSchedule(app, plainSchedule)
  const change = `reached_at = ${dueAt - minute}, next_at = ${dueAt}, due_at = ${dueAt}`
  await world.harness.sql(`update schedule set ${change} where key = ${made.key}`)
  return (await world.store.findSchedule(app, made.id)) ?? assert.fail('it is gone')
}

function publishing(schedule: Schedule, publication: ScheduleStep['publication']): ScheduleStep {
  const at = schedule.nextAt as number
  const runs = [{ at, state: 'published', trigger: 'cron', error: null, count: 1 }] as const
  return { publication, runs, reachedAt: at, retryInMs: null }
}

function skipping(schedule: Schedule): ScheduleStep {
  const at = schedule.nextAt as number
  const runs = [{ at, state: 'skipped', trigger: 'cron', error: null, count: 1 }] as const
  return { publication: null, runs, reachedAt: at, retryInMs: null }
}

function conflict(error: unknown): boolean {
  return error instanceof AppError && error.code === 'conflict'
}
