import { type Static, Type } from 'typebox'
import type { Clock } from '../../domain/clock.ts'
import type { Application } from '../../domain/endpoint.ts'
import { Turns } from '../../domain/turns.ts'
import type { EndpointBrief } from '../../store/configuration.ts'
import type { Store } from '../../store/store.ts'
import { optional } from '../fields.ts'
import { matches, PageQuery, searchFor } from '../page.ts'

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
interface Found {
  readonly app: number
  after: number
  hasAny: boolean
  hasEnabled: boolean
  hasOther: boolean
  isRead: boolean
}

/**
 * Leaves applications out by their names and by their endpoints. Most applications are decided by their first endpoint. An application whose
 * endpoints are all of the kind in question is read to its end, so a page ends after some thousand endpoints.
 */
export class ApplicationFilter {
  readonly #store: Pick<Store, 'firstEndpoints' | 'endpointBriefs'>
  readonly #clock: Clock
  readonly #query: ApplicationQuery
  #room: number

  constructor(
    store: Pick<Store, 'firstEndpoints' | 'endpointBriefs'>,
    clock: Clock,
    query: ApplicationQuery,
    room: number = steps.perPage,
  ) {
    this.#store = store
    this.#clock = clock
    this.#query = query
    this.#room = room
  }

  /** Whether the query leaves any application out. */
  static isNeeded(query: ApplicationQuery): boolean {
    return query.search !== undefined || looksAtEndpoints(query)
  }

  /** Rows that are read at once: their endpoints are looked at, too. */
  get rowsAtOnce(): number {
    return looksAtEndpoints(this.#query) ? 64 : 250
  }

  /** The applications that stay, and how many of the rows were looked at: at least one. */
  async keep(rows: readonly Application[]): Promise<{ kept: readonly Application[]; looked: number }> {
    const { search } = this.#query
    const named = search === undefined ? rows : rows.filter(({ name, uid, id }) => matches([name, uid, id], search))
    if (!looksAtEndpoints(this.#query)) return { kept: named, looked: rows.length }
    const found = new Map(named.map(({ key }) => [key, start(key)]))
    for (const brief of await this.#store.firstEndpoints(named.map(({ key }) => key))) {
      this.#add(found.get(brief.app) as Found, brief)
    }
    const kept: Application[] = []
    let looked = 0
    for (const row of rows) {
      if (looked > 0 && this.#room <= 0) break
      looked++
      const each = found.get(row.key)
      if (each === undefined) continue
      await this.#readOn(each)
      if (this.#stays(each)) kept.push(row)
    }
    return { kept, looked }
  }

  /** Reads the endpoints of an application until it is decided. */
  async #readOn(found: Found): Promise<void> {
    while (found.hasAny && !found.isRead && !this.#isDecided(found)) {
      await Turns.by(this.#clock).next()
      const briefs = await this.#store.endpointBriefs(found.app, found.after, steps.endpoints)
      for (const brief of briefs) this.#add(found, brief)
      found.isRead = briefs.length < steps.endpoints
    }
  }

  #add(found: Found, { key, disabled, url }: EndpointBrief): void {
    found.after = key
    found.hasAny = true
    found.hasEnabled ||= !disabled
    found.hasOther ||= !isSvixPlay(url)
    this.#room--
  }

  #isDecided({ hasEnabled, hasOther }: Found): boolean {
    const { exclude_apps_with_disabled_endpoints: disabled, exclude_apps_with_svix_play_endpoints: play } = this.#query
    return (disabled !== true || hasEnabled) && (play !== true || hasOther)
  }

  #stays(found: Found): boolean {
    return found.hasAny ? this.#isDecided(found) : this.#query.exclude_apps_with_no_endpoints !== true
  }
}

/** Whether the query leaves applications out by their endpoints. */
function looksAtEndpoints(query: ApplicationQuery): boolean {
  return (
    query.exclude_apps_with_no_endpoints === true ||
    query.exclude_apps_with_disabled_endpoints === true ||
    query.exclude_apps_with_svix_play_endpoints === true
  )
}

function start(app: number): Found {
  return { app, after: 0, hasAny: false, hasEnabled: false, hasOther: false, isRead: false }
}

function isSvixPlay(url: string): boolean {
  return URL.parse(url)?.hostname === 'play.svix.com'
}
