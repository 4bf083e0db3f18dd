import type { Attempt, DeadLetter, Message } from '../../domain/delivery.ts'
import { decodeKey } from '../../domain/ids.ts'
import type { History } from '../history.ts'
import { type AttemptRow, type DeadRow, toAttempt, toDeadLetter } from '../rows/message.ts'
import type { Connection, Synchronous } from './connection.ts'
import { type MessageRow, toMessage } from './rows.ts'

const selectMessage = 'select * from message where key = ?'
const selectMessageByEventId = `
  select message.* from event_id join message on message.key = event_id.message
  where event_id.app = ? and event_id.event_id = ?`
const selectAttempts = 'select * from attempt where message = ? order by endpoint, n'
const selectDead = 'select * from dead where endpoint = ? and message = ?'
const selectIsDead = 'select 1 from dead where endpoint = ? and message = ?'
const selectCounts = `
  select (select count(*) from pending) as pending, (select count(*) from dead) as dead,
    (select count(*) from message) as messages, (select count(*) from attempt) as attempts`

interface Counts {
  pending: number
  dead: number
  messages: number
  attempts: number
}

/** What was, for people. */
export function history(connection: Connection): Synchronous<History> {
  const byKey = connection.prepare<MessageRow>(selectMessage)
  const byEventId = connection.prepare<MessageRow>(selectMessageByEventId)
  const attempts = connection.prepare<AttemptRow>(selectAttempts)
  const dead = connection.prepare<DeadRow>(selectDead)
  const isDead = connection.prepare<unknown>(selectIsDead)
  const counts = connection.prepare<Counts>(selectCounts)

  return {
    findMessage(app, ref): Message | undefined {
      const key = decodeKey('msg', ref)
      const named = key === undefined ? undefined : byKey.get(key)
      const row = named?.id === ref && named.app === app ? named : byEventId.get(app, ref)
      return row && toMessage(row)
    },

    attemptsOf(message): Attempt[] {
      return attempts.all(message).map(toAttempt)
    },

    findDead(endpoint, message): DeadLetter | undefined {
      const row = dead.get(endpoint, message)
      return row && toDeadLetter(row)
    },

    deadAmong: (deliveries) => deliveries.filter(({ endpoint, message }) => isDead.get(endpoint, message)),

    counts(): Counts {
      return { ...(counts.get() as Counts) }
    },
  }
}
