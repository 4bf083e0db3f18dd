import { replay } from '../../domain/delivery.ts'
import { firstKeyAt, keyTime } from '../../domain/ids.ts'
import { nothingRetained, type Retained } from '../maintenance.ts'
import { messageTables } from '../sql/message-rows.ts'
import { atOnce } from '../sql/port.ts'
import type { RemoveHistory } from '../sql/retention.ts'
import type { Connection } from './connection.ts'

const deletesOfMessage = [
  ...messageTables.map((table) => `delete from ${table} where message = ?`),
  'delete from message where key = ?',
]

const surveyedPerStep = 10_000
const messagesPerStep = 200
/** Pages given back to the file system at a time. */
const vacuumPages = 256
/** An attempt that is under way when a pass begins is at most this old. */
const longestAttemptMs = 10 * 60 * 1000
/** How soon the same messages are looked at again. */
const passGapMs = 60 * 60 * 1000

interface PendingKey {
  readonly endpoint: number
  readonly class: number
  readonly due_at: number
  readonly message: number
}

/**
 * One pass over the old messages. `pending` has no index by message, so all of it is read first, to know which old messages
 * still wait. A delivery that was queued since then is a replay, whose place in its queue is known. A delivery that was
 * tried meanwhile may have moved to a place that was read before, but it has a recent attempt.
 */
interface Pass {
  readonly cutoff: number
  /** Applications that keep messages longer, each with the first key that it keeps. */
  readonly keptFrom: ReadonlyMap<number, number>
  readonly startedAt: number
  readonly waiting: number[]
  surveyed: PendingKey | null | undefined
  reached: number
}

/** Makes the removal of old messages, a bounded number of rows at a time. */
export function historyRemover(connection: Connection): RemoveHistory {
  const oldest = connection.prepare<unknown>('select 1 from message where key < ? limit 1')
  const survey = connection.prepare<PendingKey>(`
    select endpoint, class, due_at, message from pending
    where (endpoint, class, due_at, message) > (?, ?, ?, ?)
    order by endpoint, class, due_at, message limit +?`)
  const messagesBetween = connection.prepare<MessageRow>(`
    select key, app, event_id, endpoints from message where key > ? and key < ? order by key limit +?`)
  const fanOut = connection.prepare<unknown>('select 1 from fan_out where message = ?')
  const dead = connection.prepare<unknown>('select 1 from dead where endpoint = ? and message = ?')
  const replayed = connection.prepare<unknown>(`
    select 1 from pending where endpoint = ? and class = ${replay} and due_at = ? and message = ?`)
  const recent = connection.prepare<unknown>('select 1 from attempt where message = ? and at >= ? limit 1')
  const removeEventId = connection.prepare('delete from event_id where app = ? and event_id = ? and message = ?')
  const removals = deletesOfMessage.map((sql) => connection.prepare(sql))
  let pass: Pass | undefined
  let nextPassAt = 0

  /** Reads the next waiting rows; answers whether all were read before. */
  function surveyed(current: Pass): boolean {
    if (current.surveyed === null) return true
    const { endpoint = -1, class: itsClass = 0, due_at: dueAt = 0, message = 0 } = current.surveyed ?? {}
    const rows = survey.all(endpoint, itsClass, dueAt, message, surveyedPerStep)
    for (const row of rows) if (row.message < current.cutoff) current.waiting.push(row.message)
    current.surveyed = rows.length < surveyedPerStep ? null : (rows.at(-1) as PendingKey)
    if (current.surveyed === null) current.waiting.sort((a, b) => a - b)
    return false
  }

  function isKept({ key, endpoints }: MessageRow, { waiting, startedAt }: Pass): boolean {
    if (
      includes(waiting, key) ||
      fanOut.get(key) !== undefined ||
      recent.get(key, startedAt - longestAttemptMs) !== undefined
    )
      return true
    const list: number[] = JSON.parse(endpoints)
    return list.some(
      (endpoint) => dead.get(endpoint, key) !== undefined || replayed.get(endpoint, keyTime(key), key) !== undefined,
    )
  }

  /** Removes the next old messages; answers how many it removed, or undefined behind the last one. */
  function removeSome(current: Pass): number | undefined {
    const rows = messagesBetween.all(current.reached, current.cutoff, messagesPerStep)
    let removed = 0
    for (const row of rows) {
      current.reached = row.key
      if (row.key >= (current.keptFrom.get(row.app) ?? current.cutoff) || isKept(row, current)) continue
      if (row.event_id !== null) removeEventId.run(row.app, row.event_id, row.key)
      for (const removal of removals) removal.run(row.key)
      removed++
    }
    return rows.length === 0 ? undefined : removed
  }

  function removeHistory(historyMs: number, longer: ReadonlyMap<number, number>): Retained {
    const now = connection.now()
    if (pass === undefined) {
      const cutoff = firstKeyAt(Math.max(0, now - historyMs))
      if ((now < nextPassAt && nextPassAt - now <= passGapMs) || oldest.get(cutoff) === undefined)
        return nothingRetained
      const keptFrom = new Map([...longer].map(([app, ms]) => [app, firstKeyAt(Math.max(0, now - ms))]))
      pass = { cutoff, keptFrom, startedAt: now, waiting: [], surveyed: undefined, reached: 0 }
    }
    const current = pass
    if (!surveyed(current)) return { ...nothingRetained, more: true }
    const removed = connection.transaction(() => removeSome(current))
    if (removed === undefined) {
      pass = undefined
      nextPassAt = now + passGapMs
    }
    return { removed: removed ?? 0, more: removed !== undefined }
  }

  return (historyMs, longer) => atOnce(() => removeHistory(historyMs, longer))
}

/** Gives pages of the file that are no longer used back to the file system. */
export function upkeep(connection: Connection): void {
  connection.db.exec(`pragma incremental_vacuum(${vacuumPages})`)
}

interface MessageRow {
  readonly key: number
  readonly app: number
  readonly event_id: string | null
  readonly endpoints: string
}

/** Whether a list in ascending order has the number. */
function includes(sorted: readonly number[], wanted: number): boolean {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((sorted[middle] as number) < wanted) low = middle + 1
    else high = middle
  }
  return sorted[low] === wanted
}
