import { serves } from '../../features/regions/rules.ts'
import type { DueLane, DuePlace, Ownership } from '../lanes.ts'
import type { Connection, Synchronous } from './connection.ts'

// The next application, and region of it, that has unowned lanes with an instant; and those of them that are due. Both lean on
// lane_app_due.
const nextWithLanes = `
  select app, region from lane
  where owner is null and due_at is not null and (app, region) > (:app, +:region) order by app, region limit 1`
const dueLanesOf = `
  select endpoint from lane
  where owner is null and due_at <= +:now and app = :app and region = +:region order by due_at limit +:limit`

/** Walks over the applications that have unowned lanes with an instant. */
export function dueLanes(connection: Connection): Synchronous<Ownership>['findDue'] {
  const nextPlace = connection.prepare<DuePlace>(nextWithLanes)
  const dueOf = connection.prepare<{ endpoint: number }>(dueLanesOf)

  return (after, { applications, lanesEach }, regions = null) => {
    const now = connection.now()
    const lanes: DueLane[] = []
    let { app, region } = after ?? { app: -1, region: '' }
    for (let looked = 0; looked < applications; looked++) {
      const place = nextPlace.get({ app, region })
      if (place === undefined) return { lanes, next: null }
      ;({ app, region } = place)
      if (!serves(regions, region)) continue
      for (const { endpoint } of dueOf.all({ app, region, now, limit: lanesEach })) lanes.push({ endpoint, app })
    }
    return { lanes, next: { app, region } }
  }
}
