import { type Static, Type } from 'typebox'
import type { Clock } from '../../domain/clock.ts'
import { Turns } from '../../domain/turns.ts'
import { optional } from '../../operations/fields.ts'
import { matches, PageQuery, searchFor } from '../../operations/page.ts'
import type { EndpointBrief } from '../../store/configuration.ts'
import type { Store } from '../../store/store.ts'
import type { Application } from './noun.ts'

export const ApplicationQuery = Type.Object({
  ...PageQuery.properties,
  search: searchFor('Only applications whose name, uid or id contains this text, in any case.'),
  exclude_apps_with_no_endpoints: optional(
    Type.Boolean(),
    'Whether applications without endpoints are left out; false by default.',
  ),
  exclude_apps_with_disabled_endpoints: optional(
    Type.Boolean(),
    'Whether applications whose endpoints are all disabled are left out; false by default.',
  ),
  exclude_apps_with_svix_play_endpoints: optional(
    Type.Boolean(),
    'Whether applications whose endpoints are all at play.svix.com are left out; false by default.',
  ),
})
export type ApplicationQuery = Static<typeof ApplicationQuery>

/** Endpoints of one application that are read at once, and endpoints after which a page ends. */
const steps = { endpoints: 500, perPage: 10_000 } as const

/** The facts about an application after some of its endpoints were read. */
interface ReadApplication {
  readonly app: number
  after: number
  hasAny: boolean
  hasEnabled: boolean
  hasOther: boolean
  isRead: boolean
}

/**
 * Leaves applications out by their names and by their endpoints; undefined when the query leaves none out. Most applications
 * are decided by their first endpoint. An application whose endpoints are all of the kind in question is read to its end, so
 * a page ends after some thousand endpoints.
 */
export function applicationFilter(
  store: Pick<Store, 'firstEndpoints' | 'endpointBriefs'>,
  clock: Clock,
  query: ApplicationQuery,
  mostEndpoints: number = steps.perPage,
) {
  const { search, exclude_apps_with_no_endpoints: noEmpty = false } = query
  const { exclude_apps_with_disabled_endpoints: noDisabled = false } = query
  const { exclude_apps_with_svix_play_endpoints: noPlay = false } = query
  const looksAtEndpoints = noEmpty || noDisabled || noPlay
  if (search === undefined && !looksAtEndpoints) return undefined
  let room = mostEndpoints

  const isDecided = ({ hasEnabled, hasOther }: ReadApplication) => (!noDisabled || hasEnabled) && (!noPlay || hasOther)

  function add(found: ReadApplication, { key, disabled, url }: EndpointBrief): void {
    found.after = key
    found.hasAny = true
    found.hasEnabled ||= !disabled
    found.hasOther ||= URL.parse(url)?.hostname !== 'play.svix.com'
    room--
  }

  /** Reads the endpoints of an application until it is decided. */
  async function readOn(found: ReadApplication): Promise<void> {
    while (found.hasAny && !found.isRead && !isDecided(found)) {
      await Turns.by(clock).next()
      const briefs = await store.endpointBriefs(found.app, found.after, steps.endpoints)
      for (const brief of briefs) add(found, brief)
      found.isRead = briefs.length < steps.endpoints
    }
  }

  /** The applications that stay, and how many of the rows were looked at: at least one. */
  async function keep(rows: readonly Application[]): Promise<{ kept: readonly Application[]; looked: number }> {
    const named = search === undefined ? rows : rows.filter(({ name, uid, id }) => matches([name, uid, id], search))
    if (!looksAtEndpoints) return { kept: named, looked: rows.length }
    const nothing = { after: 0, hasAny: false, hasEnabled: false, hasOther: false, isRead: false }
    const found = new Map(named.map(({ key }): [number, ReadApplication] => [key, { app: key, ...nothing }]))
    for (const brief of await store.firstEndpoints([...found.keys()]))
      add(found.get(brief.app) as ReadApplication, brief)
    const kept: Application[] = []
    let looked = 0
    for (const row of rows) {
      if (looked > 0 && room <= 0) break
      looked++
      const each = found.get(row.key)
      if (each === undefined) continue
      await readOn(each)
      if (each.hasAny ? isDecided(each) : !noEmpty) kept.push(row)
    }
    return { kept, looked }
  }

  // Fewer rows at once where their endpoints are looked at, too.
  return { keep, rowsAtOnce: looksAtEndpoints ? 64 : 250 }
}
