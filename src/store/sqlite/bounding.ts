import type { EpochMs } from '../../domain/clock.ts'
import { type Class, classes } from '../../domain/delivery.ts'
import { toFlow } from '../../domain/flow.ts'
import {
  type Bounding,
  type Expired,
  type PendingRow,
  type RestingEnd,
  type RestingLane,
  untried,
} from '../delivering.ts'
import { nextExpired, type PendingColumns, pendingColumns, toPendingRow } from '../sql/pending-rows.ts'
import { fromJson } from '../sql/statement.ts'
import type { Connection, Synchronous } from './connection.ts'
import { deadLetterWriter } from './settling.ts'

// One seek of pending's primary key, however many rows an endpoint has.
const selectNextEndpoint = 'select min(endpoint) as endpoint from pending where endpoint > ?'
const selectResting = `
  select lane.app, endpoint.flow, endpoint.retry from lane join endpoint on endpoint.key = lane.endpoint
  where lane.endpoint = ? and lane.owner is null and endpoint.deleted_at is null`
const rowColumns = pendingColumns('pending', ':now')
const selectFront = `
  select ${rowColumns} from pending where endpoint = :endpoint and class = :class order by due_at, message limit +:limit`
// Leans on pending_expires. Rows of owned lanes are read and left out, so that each page is bounded.
const selectExpired = `
  select pending.endpoint, lane.app, lane.owner, pending.class, pending.expires_at, ${rowColumns}
  from pending join lane on lane.endpoint = pending.endpoint
  where pending.expires_at >= :from and pending.expires_at <= :now order by pending.expires_at limit +:limit`
const selectUnowned = 'select 1 from lane where endpoint = ? and owner is null'
const takePending = `
  delete from pending where endpoint = ? and class = ? and due_at = ? and message = ? returning since, attempts`

interface RestingRow {
  readonly app: number
  readonly flow: string | null
  readonly retry: string | null
}

interface ExpiredRow extends PendingColumns {
  readonly class: Class
  readonly endpoint: number
  readonly app: number
  readonly owner: number | null
  readonly expires_at: EpochMs
}

/** Ends deliveries that wait too long or are too many, in unowned lanes. */
export function bounding(connection: Connection): Synchronous<Bounding> {
  const nextEndpoint = connection.prepare<{ endpoint: number | null }>(selectNextEndpoint)
  const resting = connection.prepare<RestingRow>(selectResting)
  const front = connection.prepare<PendingColumns>(selectFront)
  const expired = connection.prepare<ExpiredRow>(selectExpired)
  const unowned = connection.prepare<unknown>(selectUnowned)
  const take = connection.prepare<{ since: EpochMs; attempts: number }>(takePending)
  const addDead = deadLetterWriter(connection)

  function frontsOf(endpoint: number, limit: number, now: EpochMs): PendingRow[] {
    return classes.flatMap((c) => front.all({ endpoint, class: c, limit, now }).map((row) => toPendingRow(row, c)))
  }

  function end({ endpoint, app, row, reason }: RestingEnd, now: EpochMs): boolean {
    if (unowned.get(endpoint) === undefined) return false
    const taken = take.get(endpoint, row.class, row.dueAt, row.message)
    if (taken === undefined) return false
    addDead({ ...untried, ...taken, endpoint, message: row.message, app, reason, diedAt: now })
    return true
  }

  return {
    readResting(after, limit) {
      const now = connection.now()
      const lanes: RestingLane[] = []
      let cursor = after ?? -1
      for (let looked = 0; looked < limit; looked++) {
        const endpoint = nextEndpoint.get(cursor)?.endpoint ?? null
        if (endpoint === null) return { lanes, next: null }
        cursor = endpoint
        const found = resting.get(endpoint)
        if (found === undefined) continue
        const { app, flow, retry } = found
        const bounds = { flow: toFlow(fromJson(flow)), retry: fromJson<RestingLane['retry']>(retry) }
        lanes.push({ endpoint, app, ...bounds, rows: frontsOf(endpoint, 1, now) })
      }
      return { lanes, next: cursor }
    },

    readFronts: (endpoint, limit) => frontsOf(endpoint, limit, connection.now()),

    readExpired(from, limit): Expired {
      const now = connection.now()
      const rows = expired.all({ from: from ?? 0, now, limit })
      const deliveries = rows.flatMap((row) =>
        row.owner === null ? [{ endpoint: row.endpoint, app: row.app, row: toPendingRow(row, row.class) }] : [],
      )
      return { deliveries, next: nextExpired(rows, from, limit) }
    },

    endResting(ends) {
      if (ends.length === 0) return []
      return connection.transaction(() => {
        const now = connection.now()
        return ends.filter((each) => end(each, now))
      })
    },
  }
}
