import { AppError } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import { decodeKey } from '../../domain/ids.ts'
import { envelopeOf, type NewRun, type Publisher } from '../../intake/publisher.ts'
import type { Progress } from '../../leader/leader.ts'
import { DeliveryEnds } from '../../leader/retention.ts'
import { type Store, StoreTrouble } from '../../store/store.ts'
import type { Regions } from '../regions/rules.ts'
import type { DueSchedule, Schedule } from './noun.ts'
import { followsDeliveries, planRuns, retryWaitMs, tickAfterEnd, tickEventId } from './rules.ts'

/** Schedules read in one step, and the number of runs after which it ends. */
const perStep = 20

type ScheduleStore = Pick<Store, 'dueSchedules' | 'advanceSchedule' | 'findSchedule' | 'deliveriesEnd'>

/**
 * Publishes the messages of schedules that are due. Each tick is one transaction that publishes its message and moves the
 * schedule on, unless another process did; so any number of processes may run this and die at any moment, and no tick is
 * lost or doubled.
 */
export class ScheduleRunner {
  readonly #store: ScheduleStore
  readonly #publisher: () => Publisher
  readonly #onTrouble: (error: unknown) => void
  /** The regions whose applications' schedules it runs. */
  readonly #regions: Regions
  readonly #ends: DeliveryEnds

  constructor(
    store: ScheduleStore,
    publisher: () => Publisher,
    onTrouble: (error: unknown) => void,
    regions: Regions = null,
  ) {
    this.#regions = regions
    this.#store = store
    this.#publisher = publisher
    this.#onTrouble = onTrouble
    this.#ends = new DeliveryEnds(store)
  }

  /** Runs some schedules that are due. Rejects when the store is in trouble; a schedule's own trouble is noted in it. */
  async step(): Promise<Progress> {
    const { now, schedules, nextInMs: inMs } = await this.#store.dueSchedules(perStep, this.#regions)
    let published = 0
    let walking = false
    for (const schedule of schedules) {
      if (followsDeliveries(schedule) && schedule.nextAt === null) {
        const note = (error: unknown) => this.#note(schedule, schedule.reachedAt, error)
        if (await this.#follow(schedule).catch(note)) walking = true
      } else published += await this.#run(schedule, now)
      // A schedule with many missed ticks does not make the step long: another process may lead soon, or this one stops.
      if (published >= perStep) return { more: true, inMs, published }
    }
    return { more: walking || schedules.length === perStep, inMs, published }
  }

  /** Runs the ticks of one schedule that are due; answers how many were published. */
  async #run(due: DueSchedule, now: EpochMs): Promise<number> {
    let schedule: Schedule = due
    let tick = due.nextAt ?? now
    let published = 0
    try {
      const { ticks, skipped } = planRuns(due, now)
      const before: NewRun[] = skipped === null ? [] : [{ ...skipped, state: 'skipped', trigger: 'cron', error: null }]
      if (ticks.length === 0) {
        const reachedAt = skipped?.at ?? now
        await this.#store.advanceSchedule(due, { publication: null, runs: before, reachedAt, retryInMs: null })
      }
      for (tick of ticks) {
        if (published > 0) {
          const moved = await this.#store.findSchedule(due.app, due.id)
          if (moved === undefined || moved.reachedAt !== ticks[published - 1]) break
          schedule = moved
        }
        if (!(await this.#publish(schedule, due.appId, tick, published === 0 ? before : []))) break
        published++
      }
    } catch (error) {
      await this.#note(schedule, tick, error)
    }
    return published
  }

  /**
   * Finds the next tick of a schedule with `@after`, if the deliveries of its last run have ended. True when there are more
   * of them to look at: the schedule stays due.
   */
  async #follow(schedule: Schedule): Promise<boolean> {
    const { runs, reachedAt } = schedule
    const last = runs.find(({ state, trigger }) => state === 'published' && trigger === 'cron')
    const message = decodeKey('msg', last?.message ?? '')
    const end = message === undefined ? { at: reachedAt } : await this.#ends.of(message)
    if (end === 'more') return true
    const step = { publication: null, runs: [], reachedAt: null, retryInMs: null }
    const nextAt = end === 'queued' ? null : tickAfterEnd(schedule, Math.max(reachedAt, end.at))
    await this.#store.advanceSchedule(schedule, { ...step, ...(nextAt !== null && { nextAt }) })
    return false
  }

  /** Answers false when another process has run the tick, or the schedule was changed meanwhile. */
  async #publish(schedule: Schedule, appId: string, tick: EpochMs, before: readonly NewRun[]): Promise<boolean> {
    const run: NewRun = { at: tick, state: 'published', trigger: 'cron', error: null, count: 1 }
    const item = { envelope: envelopeOf(schedule, tickEventId(schedule.id, tick)), body: schedule.body }
    const { state } = await this.#publisher().publishBy(appId, item, (publication) =>
      this.#store.advanceSchedule(schedule, { publication, runs: [...before, run], reachedAt: tick, retryInMs: null }),
    )
    if (state === 'mismatch') throw new AppError('conflict', 'What identifies the tick was used for something else.')
    return state === 'accepted' || state === 'conflict'
  }

  /** Notes why a schedule cannot be run, and when it is tried again. The other schedules run on. */
  async #note(schedule: Schedule, tick: EpochMs, error: unknown): Promise<void> {
    // A store in trouble cannot record the note either; the tick stays due.
    const isTrouble =
      error instanceof StoreTrouble || (error instanceof AppError && error.cause instanceof StoreTrouble)
    if (isTrouble) throw error
    if (!(error instanceof AppError)) this.#onTrouble(error)
    const message = error instanceof Error ? error.message : String(error)
    const run: NewRun = { at: tick, state: 'failed', trigger: 'cron', error: message, count: 1 }
    const retryInMs = retryWaitMs(schedule.failures + 1)
    await this.#store.advanceSchedule(schedule, { publication: null, runs: [run], reachedAt: null, retryInMs })
  }
}
