import type { Attempt, AttemptHead, DeadHead, DeadLetter, MessageHead } from '../../domain/delivery.ts'
import {
  type AttemptBrief,
  type Browsing,
  type DestinationCount,
  expungedResponse,
  type ListedAttempt,
} from '../browsing.ts'
import {
  type AttemptHeadRow,
  type AttemptRow,
  attemptHeadColumns,
  type DeadHeadRow,
  type DeadRow,
  deadHeadColumns,
  headColumns,
  toAttempt,
  toAttemptHead,
  toDeadHead,
  toDeadLetter,
} from '../rows/message.ts'
import type { Connection, Synchronous } from './connection.ts'
import { type HeadRow, toHead } from './rows.ts'

// Leans on message_app, whose entries of one application are in the order of keys.
const selectMessages = {
  ascending: `select ${headColumns} from message where app = ? and key >= ? and key < ? and key > ? order by key limit ?`,
  descending: `
    select ${headColumns} from message where app = ? and key >= ? and key < ? and key < ? order by key desc limit ?`,
}
const selectHead = `select ${headColumns} from message where key = ?`

const selectAccepted =
  'select key from message where key = ?1 and exists (select 1 from json_each(endpoints) where value = ?2)'
const countEndpoints = `
  select count(*) as messages, coalesce(sum(json_array_length(endpoints)), 0) as destinations, max(key) as last from (
    select key, endpoints from message where app = ? and key >= ? and key < ? and key > ? order by key limit ?)`

// Leans on attempt_endpoint, which ends in the primary key: rows of one instant are in its order too.
const listedColumns = `
  ${attemptHeadColumns}, not exists (
    select 1 from attempt later
    where later.message = attempt.message and later.endpoint = attempt.endpoint and later.n > attempt.n
  ) as is_latest`
const selectAttempts = {
  ascending: `
    select ${listedColumns} from attempt
    where endpoint = ? and at >= ? and at < ? and at >= ? and (at, message, n) > (?, ?, ?)
    order by at, message, n limit ?`,
  descending: `
    select ${listedColumns} from attempt
    where endpoint = ? and at >= ? and at < ? and at <= ? and (at, message, n) < (?, ?, ?)
    order by at desc, message desc, n desc limit ?`,
}
export const selectAttempted = 'select distinct endpoint from attempt where message = ? order by endpoint'
const selectAttemptHeads = `
  select id, message, endpoint, n, at, status, code, coalesce(length(response), 0) as bytes
  from attempt where message = ? order by endpoint, n`
const selectOneAttempt = 'select * from attempt where message = ? and endpoint = ? and n = ?'
const selectAttempt = 'select * from attempt where message = ? and id = ?'
const selectLatest = `
  select ${attemptHeadColumns} from attempt where message = ? and endpoint = ? order by n desc limit 1`

const expungeDead = `
  update dead set response = ?4 where endpoint = ?2 and message = ?1
    and response = (select response from attempt where message = ?1 and endpoint = ?2 and n = ?3)`
const expungeResponse = 'update attempt set response = ?4 where message = ?1 and endpoint = ?2 and n = ?3'

// Leans on dead_died, dead_app and dead_endpoint, which end in the primary key.
const selectDead = {
  all: {
    ascending: `
      select ${deadHeadColumns} from dead where died_at >= ? and died_at < ? and died_at >= ?
        and (died_at, endpoint, message) > (?, ?, ?) order by died_at, endpoint, message limit ?`,
    descending: `
      select ${deadHeadColumns} from dead where died_at >= ? and died_at < ? and died_at <= ?
        and (died_at, endpoint, message) < (?, ?, ?) order by died_at desc, endpoint desc, message desc limit ?`,
  },
  app: {
    ascending: `
      select ${deadHeadColumns} from dead where app = ? and died_at >= ? and died_at < ? and died_at >= ?
        and (died_at, endpoint, message) > (?, ?, ?) order by died_at, endpoint, message limit ?`,
    descending: `
      select ${deadHeadColumns} from dead where app = ? and died_at >= ? and died_at < ? and died_at <= ?
        and (died_at, endpoint, message) < (?, ?, ?) order by died_at desc, endpoint desc, message desc limit ?`,
  },
  endpoint: {
    ascending: `
      select ${deadHeadColumns} from dead where endpoint = ? and died_at >= ? and died_at < ? and died_at >= ?
        and (died_at, message) > (?, ?) order by died_at, message limit ?`,
    descending: `
      select ${deadHeadColumns} from dead where endpoint = ? and died_at >= ? and died_at < ? and died_at <= ?
        and (died_at, message) < (?, ?) order by died_at desc, message desc limit ?`,
  },
}
const selectDeadOf = {
  ascending: `
    select ${deadHeadColumns} from dead where endpoint = ? and message >= ? and message < ? and message > ? order by message limit ?`,
  descending: `
    select ${deadHeadColumns} from dead where endpoint = ? and message >= ? and message < ? and message < ? order by message desc limit ?`,
}
const selectOneDead = 'select * from dead where endpoint = ? and message = ?'

const count = (rows: string) => `select count(*) as count from (select 1 from ${rows} limit ?)`
const countMessages = count('message where app = ? and key >= ? and key < ?')
const countDead = {
  all: count('dead where died_at >= ? and died_at < ?'),
  app: count('dead where app = ? and died_at >= ? and died_at < ?'),
  endpoint: count('dead indexed by dead_endpoint where endpoint = ? and died_at >= ? and died_at < ?'),
  message: count('dead where endpoint = ? and message >= ? and message < ?'),
}

const lowest = -1
const highest = Number.MAX_SAFE_INTEGER

/** Looking back. */
export function browsing(connection: Connection): Synchronous<Browsing> {
  const messages = both<HeadRow>(connection, selectMessages)
  const head = connection.prepare<HeadRow>(selectHead)
  const accepted = connection.prepare<{ key: number }>(selectAccepted)
  const destinations = connection.prepare<DestinationCount>(countEndpoints)
  const attempts = both<AttemptHeadRow & { readonly is_latest: number }>(connection, selectAttempts)
  const attempted = connection.prepare<{ endpoint: number }>(selectAttempted)
  const attemptHeads = connection.prepare<AttemptBrief>(selectAttemptHeads)
  const oneAttempt = connection.prepare<AttemptRow>(selectOneAttempt)
  const attempt = connection.prepare<AttemptRow>(selectAttempt)
  const latest = connection.prepare<AttemptHeadRow>(selectLatest)
  const eraseDead = connection.prepare(expungeDead)
  const eraseResponse = connection.prepare(expungeResponse)
  const allDead = both<DeadHeadRow>(connection, selectDead.all)
  const deadByApp = both<DeadHeadRow>(connection, selectDead.app)
  const deadByEndpoint = both<DeadHeadRow>(connection, selectDead.endpoint)
  const deadOf = both<DeadHeadRow>(connection, selectDeadOf)
  const oneDead = connection.prepare<DeadRow>(selectOneDead)
  const counting = {
    messages: connection.prepare<{ count: number }>(countMessages),
    all: connection.prepare<{ count: number }>(countDead.all),
    app: connection.prepare<{ count: number }>(countDead.app),
    endpoint: connection.prepare<{ count: number }>(countDead.endpoint),
    message: connection.prepare<{ count: number }>(countDead.message),
  }

  return {
    listMessages(app, { from, until, after, order, limit }): MessageHead[] {
      return messages[order].all(app, from, until, after ?? outside(order), limit).map(toHead)
    },

    loadHeads(keys): MessageHead[] {
      return keys.flatMap((key) => {
        const row = head.get(key)
        return row === undefined ? [] : [toHead(row)]
      })
    },

    acceptedFor(endpoint, keys): number[] {
      return keys.filter((key) => accepted.get(key, endpoint) !== undefined)
    },

    countDestinations(app, { from, until, after, limit }): DestinationCount {
      return { ...(destinations.get(app, from, until, after ?? lowest, limit) as DestinationCount) }
    },

    listAttempts(endpoint, { from, until, after, order, limit }): ListedAttempt[] {
      const { at, message, n } = after ?? { at: outside(order), message: outside(order), n: outside(order) }
      const rows = attempts[order].all(endpoint, from, until, at, at, message, n, limit)
      return rows.map((row) => ({ ...toAttemptHead(row), isLatest: row.is_latest === 1 }))
    },

    attemptedEndpoints(message): number[] {
      return attempted.all(message).map(({ endpoint }) => endpoint)
    },

    attemptHeadsOf(message): AttemptBrief[] {
      return attemptHeads.all(message).map((row) => ({ ...row }))
    },

    loadAttempts(attempts): (Attempt | undefined)[] {
      return attempts.map(({ message, endpoint, n }) => {
        const row = oneAttempt.get(message, endpoint, n)
        return row && toAttempt(row)
      })
    },

    findAttempt(message, id): Attempt | undefined {
      const row = attempt.get(message, id)
      return row && toAttempt(row)
    },

    latestAttempts(deliveries): (AttemptHead | undefined)[] {
      return deliveries.map(({ message, endpoint }) => {
        const row = latest.get(message, endpoint)
        return row && toAttemptHead(row)
      })
    },

    expungeAttempt({ message, endpoint, n }): void {
      connection.transaction(() => {
        eraseDead.run(message, endpoint, n, expungedResponse)
        eraseResponse.run(message, endpoint, n, expungedResponse)
      })
    },

    listDead(app, { endpoint, from, until, after, order, limit }): DeadHead[] {
      const start = after ?? { diedAt: outside(order), endpoint: outside(order), message: outside(order) }
      const { diedAt, message } = start
      const range = [from, until, diedAt, diedAt] as const
      const rows =
        endpoint !== null
          ? deadByEndpoint[order].all(endpoint, ...range, message, limit)
          : app !== null
            ? deadByApp[order].all(app, ...range, start.endpoint, message, limit)
            : allDead[order].all(...range, start.endpoint, message, limit)
      return rows.map(toDeadHead)
    },

    listDeadOf(endpoint, { from, until, after, order, limit }): DeadHead[] {
      return deadOf[order].all(endpoint, from, until, after ?? outside(order), limit).map(toDeadHead)
    },

    loadDead(deliveries): (DeadLetter | undefined)[] {
      return deliveries.map(({ endpoint, message }) => {
        const row = oneDead.get(endpoint, message)
        return row && toDeadLetter(row)
      })
    },

    countListed(list, limit): number {
      const { from, until } = list
      if (list.of === 'messages') return counting.messages.get(list.app, from, until, limit)?.count ?? 0
      if (list.of === 'dead by message') return counting.message.get(list.endpoint, from, until, limit)?.count ?? 0
      const { app, endpoint } = list
      if (endpoint !== null) return counting.endpoint.get(endpoint, from, until, limit)?.count ?? 0
      return (
        (app === null ? counting.all.get(from, until, limit) : counting.app.get(app, from, until, limit))?.count ?? 0
      )
    },
  }
}

function both<Row>(connection: Connection, sql: { readonly ascending: string; readonly descending: string }) {
  return { ascending: connection.prepare<Row>(sql.ascending), descending: connection.prepare<Row>(sql.descending) }
}

/** What every key lies behind. */
function outside(order: 'ascending' | 'descending'): number {
  return order === 'ascending' ? lowest : highest
}
