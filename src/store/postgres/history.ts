import { decodeKey } from '../../domain/ids.ts'
import type { DeliveryKey } from '../browsing.ts'
import type { History } from '../history.ts'
import { type AttemptRow, type DeadRow, type MessageRow, toAttempt, toDeadLetter, toMessage } from '../rows/message.ts'
import { integers } from './arrays.ts'
import type { Database } from './database.ts'
import { statement } from './sessions.ts'

const messageColumns =
  'm.key, m.id, m.app, m.event_type, m.event_id, m.channels, m.content_type, m.endpoints, m.body, m.tags, m.headers, m.deliver_at, ' +
  'm.expires_at, m.ordering_key, m.expunged_at'
const selectMessage = statement('message', `select ${messageColumns} from message m where m.key = $1`)
const selectMessageByEventId = statement(
  'message-by-event-id',
  `
    select ${messageColumns} from event_id e cross join lateral (select * from message where key = e.message limit 1) as m
     where e.app = $1 and e.event_id = $2`,
)
const selectAttempts = statement(
  'attempts',
  `
    select message, endpoint, n, id, at, duration_ms, status, code, error, response, next_at, trigger
      from attempt where message = $1 order by endpoint, n`,
)
const selectDead = statement(
  'dead',
  `
    select app, endpoint, message, reason, attempts, died_at, status, code, error, response
      from dead where endpoint = $1 and message = $2`,
)
export const selectDeadAmong = statement(
  'dead-among',
  `
    select w.endpoint, w.message from unnest($1::bigint[], $2::bigint[]) as w (endpoint, message)
     cross join lateral (select from dead where endpoint = w.endpoint and message = w.message limit 1) as d`,
)
const selectCounts = statement(
  'counts',
  `
    select (select count(*) from pending) as pending, (select count(*) from dead) as dead,
           (select count(*) from message) as messages, (select count(*) from attempt) as attempts`,
)

interface Counts {
  pending: number
  dead: number
  messages: number
  attempts: number
}

/** What was, for people. */
export function history({ durable }: Database): History {
  return {
    async findMessage(app, ref) {
      const key = decodeKey('msg', ref)
      const [named] = key === undefined ? [] : await durable.run<MessageRow>(selectMessage, [key])
      const isNamed = named?.id === ref && named.app === app
      const [row] = isNamed ? [named] : await durable.run<MessageRow>(selectMessageByEventId, [app, ref])
      return row && toMessage(row)
    },

    async attemptsOf(message) {
      return (await durable.run<AttemptRow>(selectAttempts, [message])).map(toAttempt)
    },

    async findDead(endpoint, message) {
      const [row] = await durable.run<DeadRow>(selectDead, [endpoint, message])
      return row && toDeadLetter(row)
    },

    async deadAmong(deliveries) {
      if (deliveries.length === 0) return []
      const values = [
        integers(deliveries.map((each) => each.endpoint)),
        integers(deliveries.map((each) => each.message)),
      ]
      return durable.run<DeliveryKey>(selectDeadAmong, values)
    },

    async counts() {
      const [row] = await durable.run<Counts>(selectCounts)
      return { ...(row as Counts) }
    },
  }
}
