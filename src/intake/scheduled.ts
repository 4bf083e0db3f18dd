import { AppError, noSuch } from '../domain/app-error.ts'
import type { Schedule, ScheduleRun } from '../domain/schedule.ts'
import { staleTries } from '../store/publishing.ts'
import type { Store } from '../store/store.ts'
import type { Envelope } from './publication.ts'
import type { Accepted, Publisher } from './publisher.ts'

/** A run to be stored. */
export type NewRun = Omit<ScheduleRun, 'ranAt' | 'message'>

/**
 * The envelope of a schedule's message. The dedupe key is unique per run, so that a dedupe window drops none. Throws AppError
 * `damaged_record` when the stored headers do not open.
 */
export function envelopeOf(schedule: Schedule, eventId: string | null): Envelope {
  const { eventType, channels, contentType, headers, tags, id, revision } = schedule
  if (schedule.damaged) {
    throw new AppError('damaged_record', `The stored headers of ${id} cannot be opened; replace them with PATCH.`)
  }
  const dedupeKey = eventId ?? `${id}-run-${revision}`
  return { eventType, eventId, channels, contentType, headers, tags, delayMs: 0, dedupeKey }
}

/** Publishes a schedule's message now, also when it is paused. Rejects like `publish`, or with `not_found`. */
export async function runNow(
  store: Pick<Store, 'findSchedule' | 'advanceSchedule'>,
  publisher: Publisher,
  appId: string,
  { app, id }: Pick<Schedule, 'app' | 'id'>,
): Promise<Accepted> {
  for (let tries = 0; tries < staleTries; tries++) {
    const schedule = await store.findSchedule(app, id)
    if (schedule === undefined) throw noSuch('schedule', id)
    const item = { envelope: envelopeOf(schedule, null), body: schedule.body }
    const answer = await publisher.publishBy(appId, item, (publication) => {
      const run: NewRun = { at: 0, state: 'published', trigger: 'manual', error: null, count: 1 }
      return store.advanceSchedule(schedule, { publication, runs: [run], reachedAt: null, retryInMs: null })
    })
    if (answer.state === 'accepted') return answer
  }
  throw new AppError('unavailable', 'The schedule keeps changing.')
}
