import type { EpochMs } from '../../domain/clock.ts'
import type { Once, Publication, Published } from '../publishing.ts'
import type { Connection } from './connection.ts'
import type { TakenOnce } from './idempotency.ts'

const selectByEventId = `
  select message.id from event_id join message on message.key = event_id.message
  where event_id.app = ? and event_id.event_id = ?`
const selectId = 'select id from message where key = ?'

/** Makes what answers why a publication is not to be stored: it was before, or another under its event id. */
export function repeats(
  connection: Connection,
  taken: TakenOnce,
): (publication: Publication, now: EpochMs) => Published | undefined {
  const byEventId = connection.prepare<{ id: string }>(selectByEventId)
  const idOf = connection.prepare<{ id: string }>(selectId)

  /** The message that stands for this one already, if there is one. */
  function repeatOf(once: readonly Once[], now: EpochMs): Published | undefined {
    for (const [i, each] of once.entries()) {
      const found = taken.find(each, now)
      if (found === undefined) continue
      if (found.fingerprint !== each.fingerprint || found.message === null) return { state: 'mismatch' }
      const key = found.message
      const row = idOf.get(key)
      if (row === undefined) continue
      // A later repeat of this request gets the same answer, also when the hash that it met here has expired.
      for (const earlier of once.slice(0, i)) taken.take(earlier, key, null, now)
      return { state: 'repeated', key, id: row.id }
    }
    return undefined
  }

  return ({ app, eventId, once }, now) => {
    const repeated = once === undefined || once.length === 0 ? undefined : repeatOf(once, now)
    if (repeated !== undefined || eventId === null) return repeated
    const holder = byEventId.get(app, eventId)
    return holder && { state: 'conflict', id: holder.id }
  }
}
