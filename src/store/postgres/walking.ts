import { sqlNow } from './server-time.ts'

/**
 * Opens a statement with a reading of the clock and a walk over the endpoints that something waits for: up to `$2` of them
 * behind `$1`, at the price of one seek of pending's primary key each, however many rows they have. The walk ends with an
 * endpoint that is null when there are no more.
 */
export const withWalk = `
    with recursive clock as materialized (
      select ${sqlNow} as now
    ), walk (endpoint, n) as (
      (select endpoint, 1 from pending where endpoint > $1 order by endpoint limit 1)
      union all
      select (select p.endpoint from pending p where p.endpoint > walk.endpoint order by p.endpoint limit 1), n + 1
        from walk where endpoint is not null and n < $2
    )`
