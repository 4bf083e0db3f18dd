import type { Class } from '../../domain/delivery.ts'
import type { Intake } from '../intake.ts'
import type { Database } from './database.ts'
import { statement } from './sessions.ts'

/** A range of pending's primary key, read in its order. The row without a count is the last of a full page. */
export const countPage = statement(
  'count-waiting',
  `
    with page as materialized (
      select endpoint, class, due_at, message from pending
       where (endpoint, class, due_at, message) > ($1::bigint, $2::smallint, $3::bigint, $4::bigint)
       order by endpoint, class, due_at, message limit $5
    ), counted as (
      select endpoint, count(*) as count from page group by endpoint
    )
    select counted.endpoint, lane.app, counted.count, null::smallint as class, null::bigint as due_at, null::bigint as message
      from counted cross join lateral (select app from lane where endpoint = counted.endpoint limit 1) as lane
    union all
    select * from (
      select endpoint, null::bigint, null::bigint, class, due_at, message from page order by endpoint, class, due_at, message
      offset $5 - 1 limit 1
    ) as last`,
)

interface Row {
  readonly endpoint: number
  readonly app: number | null
  readonly count: number | null
  readonly class: Class
  readonly due_at: number
  readonly message: number
}

/** Makes what counts waiting deliveries, a page at a time. */
export function waitingCounter({ relaxed }: Database): Intake['surveyWaiting'] {
  return async (after, limit) => {
    const { endpoint, class: rowClass, dueAt, message } = after ?? { endpoint: -1, class: 0, dueAt: 0, message: 0 }
    const rows = await relaxed.run<Row>(countPage, [endpoint, rowClass, dueAt, message, limit])
    const last = rows.find((row) => row.count === null)
    return {
      counts: rows.flatMap(({ endpoint, app, count }) =>
        app === null || count === null ? [] : [{ endpoint, app, count }],
      ),
      next: last ? { endpoint: last.endpoint, class: last.class, dueAt: last.due_at, message: last.message } : null,
    }
  }
}
