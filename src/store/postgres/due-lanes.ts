import type { DueLane, DuePlace, Ownership } from '../lanes.ts'
import { type Database, sqlNow } from './database.ts'
import { postgresStatement, texts } from './sessions.ts'

function unownedBehind(app: string, region: string): string {
  return `
      select app, region from lane
       where owner is null and due_at is not null and (app, region) > (${app}, ${region}) order by app, region limit 1`
}

// Each step leans on lane_app_due: one seek for the next application and region, one range of its lanes.
const findDue = postgresStatement('find-due')`
    with recursive clock as materialized (
      select ${sqlNow} as now
    ), walk (app, region, n) as (
      (select first.app, first.region, 1 from (${unownedBehind('$1', '$2')}) as first)
      union all
      select step.app, step.region, n + 1
        from walk cross join lateral (${unownedBehind('walk.app', 'walk.region')}) as step
       where n < $3
    )
    select walk.app, walk.region, walk.n, due.endpoint
      from clock, walk left join lateral (
        select endpoint from lane
         where owner is null and due_at <= clock.now and app = walk.app and region = walk.region
           and ($5::text[] is null or walk.region = any ($5::text[]))
         order by due_at limit $4
      ) as due on true
     order by walk.n`

type DueRow = DuePlace & { readonly n: number; readonly endpoint: number | null }

/** Walks over the applications that have unowned lanes with an instant. */
export function dueLanes({ relaxed }: Database): Ownership['findDue'] {
  return async (after, { applications, lanesEach }, regions = null) => {
    const { app, region } = after ?? { app: -1, region: '' }
    const values = [app, region, applications, lanesEach, regions && texts(regions)]
    const rows = await relaxed.run<DueRow>(findDue, values)
    const lanes: DueLane[] = rows.flatMap(({ endpoint, app }) => (endpoint === null ? [] : [{ endpoint, app }]))
    const last = rows.at(-1)
    return { lanes, next: last?.n === applications ? { app: last.app, region: last.region } : null }
  }
}
