import type { DeadHead } from '../../domain/delivery.ts'
import {
  type AttemptBrief,
  type AttemptRange,
  type Browsing,
  type CountedList,
  type DeadRange,
  type DestinationCount,
  expungedResponse,
  type KeyRange,
  type Order,
} from '../browsing.ts'
import {
  type AttemptHeadRow,
  type AttemptRow,
  attemptColumns,
  attemptHeadColumns,
  type DeadHeadRow,
  type DeadRow,
  deadColumns,
  deadHeadColumns,
  type HeadRow,
  headColumns,
  toAttempt,
  toAttemptHead,
  toDeadHead,
  toDeadLetter,
  toHead,
} from '../rows/message.ts'
import { integers } from './arrays.ts'
import type { Database } from './database.ts'
import { type Statement, statement } from './sessions.ts'

type Both = Readonly<Record<Order, Statement>>

/** The same statement in both orders. */
function both(name: string, text: (beyond: '>' | '<', direction: '' | 'desc') => string): Both {
  return {
    ascending: statement(name, text('>', '')),
    descending: statement(`${name}-down`, text('<', 'desc')),
  }
}

// Leans on message_app; days outside of the range are left out when the statement starts.
export const selectMessages = both(
  'messages',
  (beyond, direction) => `
    select ${headColumns} from message
     where app = $1 and key >= $2 and key < $3 and key ${beyond} $4
     order by key ${direction} limit $5`,
)
export const selectHeads = statement(
  'message-heads',
  `select ${headColumns} from message where key = any ($1::bigint[])`,
)

export const selectAccepted = statement(
  'accepted-for',
  'select key from message where key = any ($1::bigint[]) and $2 = any (endpoints) order by key',
)
export const countEndpoints = statement(
  'count-destinations',
  `
    select count(*) as messages, coalesce(sum(cardinality(endpoints)), 0)::bigint as destinations, max(key) as last
      from (select key, endpoints from message
             where app = $1 and key >= $2 and key < $3 and key > $4 order by key limit $5) as part`,
)

// Leans on attempt_endpoint. Only rows of one instant are sorted.
export const selectAttempts = both(
  'attempts-of-endpoint',
  (beyond, direction) => `
    select ${attemptHeadColumns}, not exists (
             select from attempt later
              where later.message = attempt.message and later.endpoint = attempt.endpoint and later.n > attempt.n
           ) as is_latest
      from attempt
     where endpoint = $1 and at >= $2 and at < $3 and at ${beyond}= $4 and (at, message, n) ${beyond} ($4, $5, $6)
     order by at ${direction}, message ${direction}, n ${direction} limit $7`,
)
// Read in the order of the primary key: planned on an empty table, it would read all attempts by endpoint instead.
export const selectAttempted = statement(
  'attempted-endpoints',
  `
    select distinct endpoint from (select endpoint from attempt where message = $1 order by endpoint, n) as own
     order by endpoint`,
)
const selectAttemptHeads = statement(
  'attempt-heads',
  `
    select id, message, endpoint, n, at, status, code, coalesce(length(response), 0) as bytes
      from attempt where message = $1 order by endpoint, n`,
)
// Asked for in the order of n, so that only the primary key will do: while the table is small, a row looked up by its whole
// key would as well be sought among all of its endpoint's.
export const selectOwnAttempts = statement(
  'own-attempts',
  `
    select wanted.place, a.*
      from unnest($1::bigint[], $2::bigint[], $3::integer[]) with ordinality as wanted (message, endpoint, n, place)
     cross join lateral (
             select ${attemptColumns} from attempt
              where message = wanted.message and endpoint = wanted.endpoint and n <= wanted.n order by n desc limit 1
           ) as a
     where a.n = wanted.n`,
)
export const selectAttempt = statement(
  'attempt',
  `select ${attemptColumns} from attempt where message = $1 and id = $2`,
)
export const selectLatest = statement(
  'latest-attempts',
  `
    select wanted.place, a.*
      from unnest($1::bigint[], $2::bigint[]) with ordinality as wanted (message, endpoint, place)
     cross join lateral (
             select ${attemptHeadColumns} from attempt
              where message = wanted.message and endpoint = wanted.endpoint order by n desc limit 1
           ) as a`,
)

const expungeResponse = statement(
  'expunge-response',
  `
    with erased as (
      update dead set response = $4 where endpoint = $2 and message = $1
         and response = (select response from attempt where message = $1 and endpoint = $2 and n = $3)
    )
    update attempt set response = $4 where message = $1 and endpoint = $2 and n = $3`,
)

// Lean on dead_died, dead_app and dead_endpoint. Only rows of one instant are sorted.
export const selectAllDead = both(
  'all-dead',
  (beyond, direction) => `
    select ${deadHeadColumns} from dead
     where died_at + 0 >= $1 and died_at + 0 < $2 and died_at + 0 ${beyond}= $3
       and (died_at, endpoint, message) ${beyond} ($3, $4, $5)
     order by died_at + 0 ${direction}, endpoint ${direction}, message ${direction} limit $6`,
)
export const selectDeadOfApp = both(
  'dead-of-app',
  (beyond, direction) => `
    select ${deadHeadColumns} from dead
     where app = $1 and died_at >= $2 and died_at < $3 and died_at ${beyond}= $4
       and (died_at, endpoint, message) ${beyond} ($4, $5, $6)
     order by died_at ${direction}, endpoint ${direction}, message ${direction} limit $7`,
)
export const selectDeadOfEndpoint = both(
  'dead-of-endpoint',
  (beyond, direction) => `
    select ${deadHeadColumns} from dead
     where endpoint + 0 = $1 and died_at >= $2 and died_at < $3 and died_at ${beyond}= $4
       and (died_at, message) ${beyond} ($4, $5)
     order by died_at ${direction}, message ${direction} limit $6`,
)
// Leans on dead's primary key.
export const selectDeadByMessage = both(
  'dead-by-message',
  (beyond, direction) => `
    select ${deadHeadColumns} from dead
     where endpoint = $1 and message >= $2 and message < $3 and message ${beyond} $4
     order by message ${direction} limit $5`,
)

// In the order of the primary key, so that only that will do.
export const selectSomeDead = statement(
  'some-dead',
  `
    select wanted.place, d.*
      from unnest($1::bigint[], $2::bigint[]) with ordinality as wanted (endpoint, message, place)
     cross join lateral (
             select ${deadColumns} from dead
              where endpoint = wanted.endpoint and message = wanted.message order by endpoint, message limit 1
           ) as d`,
)

// In the order of the index each of them leans on, which keeps the planner to it.
function count(name: string, rows: string): Statement {
  return statement(`count-${name}`, `select count(*) as count from (select from ${rows}) as listed`)
}
export const countMessages = count(
  'messages',
  'message where app = $1 and key >= $2 and key < $3 order by key limit $4',
)
export const countAllDead = count(
  'dead',
  'dead where died_at + 0 >= $1 and died_at + 0 < $2 order by died_at + 0 limit $3',
)
export const countDeadOfApp = count(
  'dead-of-app',
  'dead where app = $1 and died_at >= $2 and died_at < $3 order by died_at limit $4',
)
export const countDeadOfEndpoint = count(
  'dead-of-endpoint',
  'dead where endpoint + 0 = $1 and died_at >= $2 and died_at < $3 order by died_at limit $4',
)
export const countDeadByMessage = count(
  'dead-by-message',
  'dead where endpoint = $1 and message >= $2 and message < $3 order by message limit $4',
)

/** Looking back. */
export function browsing({ durable }: Database): Browsing {
  return {
    async listMessages(app, range: KeyRange) {
      const { from, until, after, order, limit } = range
      const values = [app, from, until, after ?? outside(order), limit]
      return (await durable.run<HeadRow>(selectMessages[order], values)).map(toHead)
    },

    async loadHeads(keys) {
      if (keys.length === 0) return []
      return (await durable.run<HeadRow>(selectHeads, [integers(keys)])).map(toHead)
    },

    async acceptedFor(endpoint, keys) {
      if (keys.length === 0) return []
      return (await durable.run<{ key: number }>(selectAccepted, [integers(keys), endpoint])).map(({ key }) => key)
    },

    async countDestinations(app, { from, until, after, limit }) {
      const values = [app, from, until, after ?? outside('ascending'), limit]
      const [row] = await durable.run<DestinationCount>(countEndpoints, values)
      return { ...(row as DestinationCount) }
    },

    async listAttempts(endpoint, range: AttemptRange) {
      const { from, until, after, order, limit } = range
      const { at, message, n } = after ?? { at: outside(order), message: outside(order), n: outermostOrdinal(order) }
      const values = [endpoint, from, until, at, message, n, limit]
      const rows = await durable.run<AttemptHeadRow & { readonly is_latest: boolean }>(selectAttempts[order], values)
      return rows.map((row) => ({ ...toAttemptHead(row), isLatest: row.is_latest }))
    },

    async attemptedEndpoints(message) {
      return (await durable.run<{ endpoint: number }>(selectAttempted, [message])).map(({ endpoint }) => endpoint)
    },

    async attemptHeadsOf(message) {
      return (await durable.run<AttemptBrief>(selectAttemptHeads, [message])).map((row) => ({ ...row }))
    },

    async loadAttempts(attempts) {
      if (attempts.length === 0) return []
      const values = [attempts.map((a) => a.message), attempts.map((a) => a.endpoint), attempts.map((a) => a.n)]
      const rows = await durable.run<AttemptRow & { readonly place: number }>(selectOwnAttempts, values.map(integers))
      const found = new Map(rows.map((row) => [row.place, toAttempt(row)]))
      return attempts.map((_, i) => found.get(i + 1))
    },

    async findAttempt(message, id) {
      const [row] = await durable.run<AttemptRow>(selectAttempt, [message, id])
      return row && toAttempt(row)
    },

    async latestAttempts(deliveries) {
      if (deliveries.length === 0) return []
      const values = [integers(deliveries.map((d) => d.message)), integers(deliveries.map((d) => d.endpoint))]
      const rows = await durable.run<AttemptHeadRow & { readonly place: number }>(selectLatest, values)
      const found = new Map(rows.map((row) => [row.place, toAttemptHead(row)]))
      return deliveries.map((_, i) => found.get(i + 1))
    },

    async expungeAttempt({ message, endpoint, n }) {
      await durable.run(expungeResponse, [message, endpoint, n, Buffer.from(expungedResponse)])
    },

    async listDead(app, range: DeadRange): Promise<DeadHead[]> {
      const { endpoint, from, until, after, order, limit } = range
      const start = after ?? { diedAt: outside(order), endpoint: outside(order), message: outside(order) }
      const { diedAt, message } = start
      const [statement, values] =
        endpoint !== null
          ? [selectDeadOfEndpoint, [endpoint, from, until, diedAt, message, limit]]
          : app !== null
            ? [selectDeadOfApp, [app, from, until, diedAt, start.endpoint, message, limit]]
            : [selectAllDead, [from, until, diedAt, start.endpoint, message, limit]]
      return (await durable.run<DeadHeadRow>(statement[order], values)).map(toDeadHead)
    },

    async listDeadOf(endpoint, { from, until, after, order, limit }) {
      const values = [endpoint, from, until, after ?? outside(order), limit]
      return (await durable.run<DeadHeadRow>(selectDeadByMessage[order], values)).map(toDeadHead)
    },

    async loadDead(deliveries) {
      if (deliveries.length === 0) return []
      const values = [integers(deliveries.map((d) => d.endpoint)), integers(deliveries.map((d) => d.message))]
      const rows = await durable.run<DeadRow & { readonly place: number }>(selectSomeDead, values)
      const found = new Map(rows.map((row) => [row.place, toDeadLetter(row)]))
      return deliveries.map((_, i) => found.get(i + 1))
    },

    async countListed(list, limit) {
      const [statement, ...values] = countOf(list)
      const [row] = await durable.run<{ count: number }>(statement, [...values, limit])
      return row?.count ?? 0
    },
  }
}

/** The statement that counts a list, and its values but for the limit. */
function countOf(list: CountedList): [Statement, ...number[]] {
  const { from, until } = list
  if (list.of === 'messages') return [countMessages, list.app, from, until]
  if (list.of === 'dead by message') return [countDeadByMessage, list.endpoint, from, until]
  if (list.endpoint !== null) return [countDeadOfEndpoint, list.endpoint, from, until]
  return list.app === null ? [countAllDead, from, until] : [countDeadOfApp, list.app, from, until]
}

/** What every key lies behind. */
function outside(order: Order): number {
  return order === 'ascending' ? -1 : Number.MAX_SAFE_INTEGER
}

/** The same for a column of four bytes. */
function outermostOrdinal(order: Order): number {
  return order === 'ascending' ? -1 : 2 ** 31 - 1
}
