import type { EpochMs } from '../../domain/clock.ts'
import { type Class, fresh, timed } from '../../domain/delivery.ts'
import { isBefore } from '../../domain/ordered-queue.ts'
import type { HeadAnswer, Heads } from '../heads.ts'
import { skipMark } from '../held.ts'
import type { Connection, Synchronous } from './connection.ts'
import { laneWakes } from './lane-wakes.ts'

// Ranges of pending's primary key. A named delivery is looked for among all of its endpoint's: an operator can wait.
const columns = 'class, due_at as dueAt, message, held_until as heldUntil'
const selectFirst = `
  select ${columns} from pending where endpoint = ? and class = ? and due_at <= ? order by due_at, message limit 1`
const selectNamed = `select ${columns} from pending where endpoint = ? and class = ? and message = ? limit 1`

const key = 'endpoint = ? and class = ? and due_at = ? and message = ?'
const tryAnew = `
  update pending set held_until = null, prior_attempts = prior_attempts + attempts, attempts = 0, since = ? where ${key}`
const markSkipped = `update pending set held_until = ${skipMark} where ${key}`
// Below zero it also tells an owner who is just giving the lane back that its word on how long to rest is outdated.
const restAnew = 'update lane set not_before = -1 where endpoint = ?'

interface Row {
  readonly class: Class
  readonly dueAt: EpochMs
  readonly message: number
  readonly heldUntil: EpochMs | null
}

/** Operators' orders to the heads of lines. */
export function heads(connection: Connection): Synchronous<Heads> {
  const first = connection.prepare<Row>(selectFirst)
  const named = connection.prepare<Row>(selectNamed)
  const retry = connection.prepare(tryAnew)
  const skip = connection.prepare(markSkipped)
  const disturb = connection.prepare(restAnew)
  const wakes = laneWakes(connection)

  function find(endpoint: number, message: number | null, now: EpochMs): Row | undefined {
    if (message !== null) return named.get(endpoint, fresh, message) ?? named.get(endpoint, timed, message)
    const one = first.get(endpoint, fresh, Number.MAX_SAFE_INTEGER)
    const other = first.get(endpoint, timed, now)
    return one && other ? (isBefore(one, other) ? one : other) : (one ?? other)
  }

  return {
    directHead(endpoint, message, order): HeadAnswer {
      let woke = false
      const answer = connection.transaction((): HeadAnswer => {
        const now = connection.now()
        const row = find(endpoint, message, now)
        if (row === undefined) return { state: 'none' }
        const place = [endpoint, row.class, row.dueAt, row.message] as const
        if (order === 'skip') skip.run(...place)
        // What is not held may be on its way: an attempt would then be counted in two ways.
        else if ((row.heldUntil ?? 0) <= now) return { state: 'busy', message: row.message }
        else retry.run(now, ...place)
        disturb.run(endpoint)
        woke = wakes.wake(endpoint, now)
        return { state: 'told', message: row.message }
      })
      if (answer.state === 'told') connection.watcher?.settings([endpoint])
      if (woke) connection.watcher?.lanes()
      return answer
    },
  }
}
