import { type Static, type TProperties, Type } from 'typebox'
import type { Clock } from '../../domain/clock.ts'
import type { Application } from '../../domain/endpoint.ts'
import type { DeadFilter } from '../../domain/task.ts'
import type { Store } from '../../store/store.ts'
import { closed, described, maybe } from '../fields.ts'
import { dateTime, readInstants } from '../instant.ts'
import { found, isRef } from '../lookup.ts'
import { PageQuery } from '../page.ts'
import type { Part } from '../validate.ts'
import { reason } from './dead-letter-schema.ts'

/**
 * Which dead letters a request means: all that meet every field. The filter is defined here once. Bodies have these
 * fields; queries have the same in snake case, with lists separated by commas.
 */
const ofApplication = {
  msgId: Type.String({ maxLength: 256, description: 'Message, by id; where it is a filter, also by eventId.' }),
  endpointId: Type.String({ maxLength: 256, description: 'Endpoint, by id; where it is a filter, also by uid.' }),
}
const ofAny = {
  eventTypes: Type.Array(Type.String({ maxLength: 256 }), {
    minItems: 1,
    maxItems: 1000,
    description: 'Event types: names, groups such as `video.*`, or `*`; null for all.',
  }),
  reason,
  before: described(dateTime, 'Only items before this instant, RFC 3339.'),
  after: described(dateTime, 'Only items after this instant, RFC 3339.'),
}

type Fields = typeof ofApplication & typeof ofAny
type Names = { readonly [Name in keyof Fields]?: Static<Fields[Name]> | null }

/** Whose dead letters: those of one application, or of all. A message or an endpoint is named within an application. */
export type Whose = 'one' | 'all'

/** The filter in a body, with more fields beside it. */
export function filterBody<More extends TProperties>(whose: Whose, more: More) {
  const fields = whose === 'one' ? { ...ofApplication, ...ofAny } : ofAny
  const filter = Object.fromEntries(Object.entries(fields).map(([name, schema]) => [name, maybe(schema)]))
  // A mistyped name would otherwise mean far more dead letters than the caller asked for.
  return Type.Unsafe<Names & Static<ReturnType<typeof Type.Object<More>>>>(Type.Object({ ...filter, ...more }, closed))
}

/** The filter in a query; a list also has pages. */
export function filterQuery(whose: Whose, of: 'list' | 'all') {
  const { endpointId, msgId } = ofApplication
  const fields: TProperties = whose === 'one' ? { endpointId, ...ofAny, ...(of === 'all' && { msgId }) } : ofAny
  const filter = Object.fromEntries(
    Object.entries(fields).map(([name, schema]) => {
      const inQuery = name === 'eventTypes' ? Type.String({ description: 'Names, separated by commas' }) : schema
      return [snake(name), Type.Optional(inQuery)]
    }),
  )
  if (of === 'list') return Type.Unsafe<PageQuery>(Type.Object({ ...PageQuery.properties, ...filter }))
  return Type.Unsafe<PageQuery>(Type.Object(filter, closed))
}

/** The fields of a filter in a query. */
export function namesIn(query: object): Names {
  const values = new Map(Object.entries(query))
  const names = Object.keys({ ...ofApplication, ...ofAny }).map((name) => {
    const value = values.get(snake(name)) ?? null
    return [name, name === 'eventTypes' ? (value?.split(',') ?? null) : value]
  })
  return Object.fromEntries(names)
}

function snake(name: string): string {
  return name === 'msgId' ? 'msg_id' : name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** The store's clock may be ahead of this machine's; a delivery that has just died counts. */
const skewMs = 60_000

/** The filter with the things that it names. AppError `not_found` when one does not exist. */
export async function toDeadFilter(
  { store, clock }: { readonly store: Store; readonly clock: Clock },
  app: Application | undefined,
  names: Names,
  part: Part,
): Promise<DeadFilter> {
  const { before, after } = readInstants(part, { before: names.before, after: names.after })
  const { endpointId: endpoint = null, msgId: message = null } = names
  return {
    endpoint:
      app === undefined || endpoint === null ? null : await keyOf('endpoint', endpoint, app.key, store.findEndpoint),
    message: app === undefined || message === null ? null : await keyOf('message', message, app.key, store.findMessage),
    eventTypes: names.eventTypes ?? null,
    reason: names.reason ?? null,
    after: after === undefined ? 0 : after + 1,
    // Deliveries that die while a task runs are not among those that the caller meant.
    before: before ?? clock.now() + skewMs,
  }
}

async function keyOf(
  noun: string,
  name: string,
  app: number,
  find: (app: number, name: string) => Promise<{ readonly key: number } | undefined>,
): Promise<number> {
  return found(isRef(name) ? await find(app, name) : undefined, noun, name).key
}
