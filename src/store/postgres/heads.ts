import { type Class, fresh, timed } from '../../domain/delivery.ts'
import type { Heads } from '../heads.ts'
import { skipMark } from '../held.ts'
import type { Database } from './database.ts'
import { withClock } from './server-time.ts'
import { statement } from './sessions.ts'

const columns = 'class, due_at, message, held_until'

// Two seeks of pending's primary key.
export const selectFirst = statement(
  'head-of-line',
  `
    ${withClock}, one as materialized (
      select ${columns} from pending where endpoint = $1 and class = ${fresh} order by due_at, message limit 1
    ), other as materialized (
      select ${columns} from pending
       where endpoint = $1 and class = ${timed} and due_at <= (select now from clock) order by due_at, message limit 1
    )
    select clock.now, head.*
      from clock, (select * from one union all select * from other order by due_at, message limit 1) as head`,
)

// A named delivery is looked for among all of its endpoint's: an operator can wait.
export const selectNamed = statement(
  'named-in-line',
  `
    ${withClock}
    select clock.now, named.*
      from clock, lateral (
        select ${columns} from pending where endpoint = $1 and class in (${fresh}, ${timed}) and message = $2 limit 1
      ) as named`,
)

const key = 'endpoint = $1 and class = $2 and due_at = $3 and message = $4'
export const tryAnew = statement(
  'retry-head',
  `
    update pending set held_until = null, prior_attempts = prior_attempts + attempts, attempts = 0, since = $5
     where ${key} and held_until > $5
    returning message`,
)
export const markSkipped = statement(
  'skip-head',
  `update pending set held_until = ${skipMark} where ${key} returning message`,
)
// Below zero it also tells an owner who is just giving the lane back that its word on how long to rest is outdated.
const restAnew = statement('rest-anew-head', 'update lane set not_before = -1 where endpoint = $1')

interface Row {
  readonly now: number
  readonly class: Class
  readonly due_at: number
  readonly message: number
  readonly held_until: number | null
}

/** Operators' orders to the heads of lines. */
export function heads({ durable, signals, wakes }: Database): Heads {
  return {
    async directHead(endpoint, message, order) {
      const answer = await durable.transaction(async (run) => {
        const [row] =
          message === null ? await run<Row>(selectFirst, [endpoint]) : await run<Row>(selectNamed, [endpoint, message])
        if (row === undefined) return { state: 'none' } as const
        const place = [endpoint, row.class, row.due_at, row.message]
        // What is not held may be on its way: an attempt would then be counted in two ways.
        const isBusy = order === 'retry' && (row.held_until ?? 0) <= row.now
        if (isBusy) return { state: 'busy', message: row.message } as const
        const changed = await (order === 'skip' ? run(markSkipped, place) : run(tryAnew, [...place, row.now]))
        // It has ended in this very moment.
        if (changed.length === 0) return { state: 'none' } as const
        await run(restAnew, [endpoint])
        await signals.notify(run, 's', [endpoint])
        return { state: 'told', message: row.message } as const
      })
      if (answer.state !== 'told') return answer
      signals.settings([endpoint])
      // After the commit and by itself: an owner that gives the lane back meanwhile is then seen.
      await wakes.rouse([endpoint])
      return answer
    },
  }
}
