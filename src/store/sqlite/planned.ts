import type { EpochMs } from '../../domain/clock.ts'
import { fresh, timed } from '../../domain/delivery.ts'
import { untried } from '../delivering.ts'
import { closingMs } from '../maintenance.ts'
import { type Plan, type Planned, plainly } from '../plan.ts'
import { type Expansion, nothingExpanded, type Special, type Variant } from '../publishing.ts'
import { fromJson } from '../sql/statement.ts'
import type { Connection } from './connection.ts'
import { type FreshRow, type Queued, type Queueing, wakeAt } from './queueing.ts'
import { deadLetterWriter } from './settling.ts'

export const nothingPlanned: ReadonlyMap<number, Planned> = new Map()

/** A message whose deliveries are not all plain. */
interface PlannedMessage {
  readonly key: number
  readonly app: number
  readonly since: EpochMs
  readonly expiresAt: EpochMs | null
  /** Of the deliveries that are not plain. A Plan's keys are text, and 25,000 conversions took 20 ms. */
  readonly planned: ReadonlyMap<number, Planned>
  /** Whether it is queued some time after it was accepted. */
  readonly late: boolean
}

/**
 * Adds a message to the queues of endpoints by its plan, inside the caller's transaction. Answers the endpoints whose
 * queues did not grow, because the delivery replaced another or was replaced at once.
 */
type EnqueuePlanned = (queued: Queued, endpoints: readonly number[], message: PlannedMessage) => number[]

/** Makes the function that queues deliveries that are not plain. */
export function plannedQueue(connection: Connection): EnqueuePlanned {
  const add = connection.prepare(`
    insert into pending
      (endpoint, class, due_at, message, since, attempts, prior_attempts, order_key, expires_at, variant)
    values (?, ?, ?, ?, ?, 0, 0, ?, ?, ?)`)
  const drop = deadLetterWriter(connection)
  const join = windows(connection)
  // Leans on pending's primary key, read backwards.
  const lastFresh = connection.prepare<FreshRow>(
    'select due_at, message from pending where endpoint = ? and class = 0 order by due_at desc, message desc limit 1',
  )

  /** Behind all accepted before, also by another process, in the same millisecond or before a clock was set back. */
  function behindOthers({ last }: Queued, endpoint: number, message: number, at: EpochMs): EpochMs {
    // Read once per transaction: for 25,000 rows of 50 lanes, the reads took 90 of 130 ms.
    const row = last.get(endpoint) ?? lastFresh.get(endpoint)
    const dueAt = row === undefined ? at : Math.max(at, row.message < message ? row.due_at : row.due_at + 1)
    last.set(endpoint, { due_at: dueAt, message })
    return dueAt
  }

  return (queued, endpoints, { key, app, since, expiresAt, planned: special, late }) => {
    const { now, due, freshAt } = queued
    const merged: number[] = []
    const delayed = since > now
    if (delayed) queued.onlyFresh = false
    const rowClass = delayed ? timed : fresh
    const rowDueAt = delayed ? since : freshAt
    for (const endpoint of endpoints) {
      const planned = special.get(endpoint) ?? plainly
      if (planned.drop !== undefined) {
        drop({ ...untried, endpoint, message: key, app, reason: planned.drop, attempts: 0, diedAt: now, since })
        continue
      }
      const { orderKey = null, variant = null, coalesce } = planned
      if (coalesce !== undefined) {
        const joined = join({ endpoint, message: key, ...coalesce, late }, now)
        if (joined?.replaces !== false) merged.push(endpoint)
        if (joined === undefined) continue
        add.run(endpoint, timed, joined.dueAt, key, joined.dueAt, orderKey, expiresAt, variant)
        // The delivery that it replaced was due at the same instant, and its lane knows.
        if (joined.replaces) continue
        queued.onlyFresh = false
        wakeAt(due, endpoint, joined.dueAt)
        continue
      }
      if (orderKey === null || delayed) {
        add.run(endpoint, rowClass, rowDueAt, key, since, orderKey, expiresAt, variant)
        wakeAt(due, endpoint, since)
        continue
      }
      const dueAt = behindOthers(queued, endpoint, key, rowDueAt)
      const row = { dueAt, message: key, since, orderKey, expiresAt, variant }
      const lane = queued.ordered.get(endpoint)
      if (lane === undefined) queued.ordered.set(endpoint, [row])
      else lane.push(row)
    }
    return merged
  }
}

/** Makes the function that stores the variants of a message. */
export function variantKeeper(connection: Connection): (message: number, variants: readonly Variant[]) => void {
  const add = connection.prepare('insert into variant (message, n, body, signature) values (?, ?, ?, ?)')
  return (message, variants) => {
    for (const [n, { body, signature }] of variants.entries()) add.run(message, n, body, signature)
  }
}

/** A delivery that is to be coalesced. */
interface Joining extends NonNullable<Special['coalesce']> {
  readonly endpoint: number
  readonly message: number
  /** Queued some time after it was accepted, as deliveries of wide messages are: a newer one may wait already. */
  readonly late: boolean
}

/** When a delivery is due, and whether it replaced another; undefined when a newer one replaced it. */
type Joined = { readonly dueAt: EpochMs; readonly replaces: boolean } | undefined

/** Makes the function by which a delivery joins a window or opens one. The caller has a transaction, and queues it. */
function windows(connection: Connection): (joining: Joining, now: EpochMs) => Joined {
  const find = connection.prepare<{ message: number; due_at: EpochMs }>(
    'select message, due_at from coalescing where endpoint = ? and key = ?',
  )
  const keep = connection.prepare(
    'insert or replace into coalescing (endpoint, key, message, due_at) values (?, ?, ?, ?)',
  )
  const waiting = connection.prepare<unknown>(
    `select 1 from pending where endpoint = ? and class = ${timed} and due_at = ? and message = ?`,
  )
  // A delivery that was tried no longer waits for the end of its window.
  const remove = connection.prepare(`
    delete from pending where endpoint = ? and class = ${timed} and due_at = ? and message = ? and attempts = 0`)
  const end = connection.prepare(
    'insert or replace into coalesced (message, endpoint, at, successor) values (?, ?, ?, ?)',
  )

  return ({ endpoint, message, key, windowMs, late }, now) => {
    const open = find.get(endpoint, key)
    const latest = now + Math.ceil(windowMs)
    // A window that seems to end later than it can was opened before the clock was set back, or when windows were longer.
    if (open === undefined || open.due_at <= now + closingMs || open.due_at > latest) {
      keep.run(endpoint, key, message, latest)
      return { dueAt: latest, replaces: false }
    }
    const { due_at: dueAt, message: other } = open
    if (late && other > message) {
      if (waiting.get(endpoint, dueAt, other) === undefined) return { dueAt, replaces: false }
      end.run(message, endpoint, now, other)
      return undefined
    }
    // The other delivery is no longer in the queue when it was replayed or expunged meanwhile.
    const replaces = remove.run(endpoint, dueAt, other).changes > 0
    if (replaces) end.run(other, endpoint, now, message)
    keep.run(endpoint, key, message, dueAt)
    return { dueAt, replaces }
  }
}

interface Cursor {
  readonly message: number
  readonly since: EpochMs
  readonly next: number
}

/** The part of a wide message that its deliveries need. */
interface Wide extends Pick<PlannedMessage, 'key' | 'app' | 'expiresAt' | 'planned'> {
  readonly endpoints: readonly number[]
}

type Merged = Expansion['merged'][number]

/**
 * Makes the function that expands wide messages. The rows and the cursor behind them are one transaction, so that a crash
 * between two chunks leaves neither a gap nor a row twice. The endpoints of the message were chosen when it was accepted;
 * those deleted since then are left out. An expunged message is expanded no further.
 */
export function fanOut(
  connection: Connection,
  { inTransaction, enqueue }: Queueing,
  enqueuePlanned: EnqueuePlanned,
): (limit: number) => Expansion {
  type Stored = Omit<Wide, 'endpoints' | 'planned'> & { readonly endpoints: string; readonly plan: string | null }
  const listed = connection.prepare<Stored>(`
    select key, app, endpoints, expires_at as expiresAt, plan from message where key = ? and expunged_at is null`)
  const cursor = connection.prepare<Cursor>('select message, since, next from fan_out order by message limit 1')
  const live = connection.prepare<unknown>('select 1 from endpoint where key = ? and deleted_at is null')
  const move = connection.prepare('update fan_out set next = ? where message = ?')
  const remove = connection.prepare('delete from fan_out where message = ?')
  const any = connection.prepare<unknown>('select 1 from fan_out limit 1')
  // Fifty thousand keys take milliseconds to parse, and are needed once per chunk.
  let parsed: Wide | undefined

  function wideOf(key: number): Wide {
    if (parsed?.key === key) return parsed
    const row = listed.get(key)
    const plan: Plan | null = row === undefined ? null : fromJson(row.plan)
    const planned = new Map(Object.entries(plan ?? {}).map(([endpoint, each]) => [Number(endpoint), each]))
    parsed = row
      ? { ...row, endpoints: JSON.parse(row.endpoints), planned }
      : { key, app: 0, endpoints: [], expiresAt: null, planned }
    return parsed
  }

  /** Queues up to `limit` more deliveries of one message; answers how many it was asked for. */
  function expandOne(queued: Queued, { message: key, since, next }: Cursor, limit: number, merged: Merged[]): number {
    const { app, endpoints, expiresAt, planned } = wideOf(key)
    const end = Math.min(next + limit, endpoints.length)
    const chunk = endpoints
      .slice(next, end)
      .filter((endpoint) => planned.get(endpoint)?.orderKey === undefined && live.get(endpoint) !== undefined)
    if (planned.size === 0 && expiresAt === null) enqueue(queued, chunk, key, since)
    else {
      const replaced = enqueuePlanned(queued, chunk, { key, app, since, expiresAt, planned, late: true })
      if (replaced.length > 0) merged.push({ app, endpoints: replaced })
    }
    if (end < endpoints.length) move.run(end, key)
    else {
      remove.run(key)
      parsed = undefined
    }
    return end - next
  }

  return (limit) => {
    if (any.get() === undefined) return nothingExpanded
    const merged: Merged[] = []
    inTransaction((queued) => {
      // A batch may leave a thousand messages of some deliveries each: together they cost one write to the disk.
      for (let left = limit; left > 0; ) {
        const found = cursor.get()
        if (found === undefined) break
        left -= Math.max(1, expandOne(queued, found, left, merged))
      }
    })
    return { merged, more: any.get() !== undefined }
  }
}
