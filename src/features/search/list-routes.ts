import { type Static, Type } from 'typebox'
import { pageItems } from '../../domain/api.ts'
import { AppError } from '../../domain/app-error.ts'
import { decodeKey } from '../../domain/ids.ts'
import { Turns } from '../../domain/turns.ts'
import { read } from '../../operations/access.ts'
import {
  appId,
  id,
  instant,
  isoOrNull,
  listOf,
  nullable,
  optional,
  text,
  uidOut,
  url,
} from '../../operations/fields.ts'
import { appKeyOf } from '../../operations/lookup.ts'
import { matches } from '../../operations/page.ts'
import { type Noun, route } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import type { EndpointName } from '../../store/configuration.ts'
import type { Store } from '../../store/store.ts'
import { endpointState, endpointStates, healthFacts } from '../endpoints/rules.ts'
import { condition, ForecastOut, toForecastOut, toWaitingOut, Waiting } from '../why/schemas.ts'
import type { ExplainedEndpoint } from '../why/service.ts'
import { worstKept } from './survey-service.ts'

const sorts = ['created', 'waiting', 'oldest', 'failing'] as const

const EndpointsQuery = Type.Object({
  app: optional(Type.String({ maxLength: 256 }), 'Only endpoints of this application.'),
  search: optional(
    Type.String({ maxLength: 256 }),
    'Only endpoints whose id, uid, URL or description contains this text in any case. With the sort by creation only.',
  ),
  sort: optional(
    Type.Enum([...sorts]),
    'By creation, the newest first (default); or the worst first: by waiting deliveries, by the age of the oldest one, or by how long its receiver has failed. The worst are listed up to 100.',
  ),
  limit: optional(Type.Integer({ minimum: 1, maximum: worstKept }), 'Largest number of items; 50 by default.'),
  iterator: optional(Type.String({ maxLength: 64 }), 'Position to continue from: the `iterator` of another page.'),
})

/** An endpoint with the state of its lane, among those of all applications. */
const EndpointSummaryOut = Type.Object({
  id,
  appId,
  appUid: uidOut,
  appName: text('Display name of the application.'),
  uid: uidOut,
  url,
  description: text('Free text.'),
  state: Type.Enum([...endpointStates], { description: 'State in one word.' }),
  reason: text('Reason why its deliveries wait; see `why`.'),
  detail: text('The same as a sentence.'),
  nextAt: nullable(instant('Earliest time at which it moves on by itself.')),
  condition,
  forecast: ForecastOut,
  waiting: Waiting,
  oldestSince: nullable(instant('Since when the oldest delivery has been waiting.')),
  failingSince: nullable(instant('Since when its receiver has failed; null when it does not.')),
})

/** Names that one request looks through; a search that found fewer than asked continues with its iterator. */
const searchedNames = 200_000

const namesAtOnce = 500

const listRoute = route('GET /endpoint', read, {
  id: 'v1.endpoint.list-all',
  summary: 'List the endpoints of all applications with their states',
  description:
    'Each endpoint has the sentence of `why`. A sort by another value than creation lists the worst endpoints of the server first.',
  query: EndpointsQuery,
  answers: { 200: listOf(EndpointSummaryOut) },
  handle: async ({ query, request }, services) => {
    const { store, explainer } = services
    const app = await appKeyOf(store, request.caller, query.app)
    const { sort = 'created', limit = pageItems.usual } = query
    if (sort === 'created') return listCreated(services, app, query, limit)
    const explained =
      sort === 'failing'
        ? (await explainer.failing(app)).slice(0, limit)
        : (await explainer.worst(app, { [sort === 'oldest' ? 'age' : sort]: limit })).worst
    return { data: await summaries(store, explained), iterator: null, prevIterator: null, done: true }
  },
})

export const endpointList = { tag: 'Endpoint', schemas: { EndpointSummaryOut }, routes: [listRoute] } satisfies Noun

async function listCreated(
  services: Services,
  app: number | null,
  { search, iterator }: Static<typeof EndpointsQuery>,
  limit: number,
) {
  const after = iterator === undefined ? null : decodeKey('ep', iterator)
  if (after === undefined) {
    const problem = { at: ['query', 'iterator'], message: 'is not an iterator of this list', type: 'iterator' }
    throw new AppError('validation', 'The iterator is not valid.', [problem])
  }
  const { found, last, done } = await searchEndpoints(services, app, search ?? '', after, limit)
  const explained = await services.explainer.endpoints(found.map(({ key }) => key))
  const data = await summaries(services.store, explained)
  return { data, iterator: last?.id ?? null, prevIterator: null, done }
}

/** The newest endpoints whose names contain a text. Each step reads a few hundred names, with a turn for others after it. */
export async function searchEndpoints(
  { store, clock }: Pick<Services, 'store' | 'clock'>,
  app: number | null,
  text: string,
  after: number | null,
  limit: number,
) {
  const turns = Turns.by(clock)
  const found: EndpointName[] = []
  let last: EndpointName | undefined
  for (let seen = 0; seen < searchedNames; ) {
    const count = text === '' ? limit : namesAtOnce
    const page = await store.nameEndpoints(app, { order: 'descending', after: last?.key ?? after, limit: count })
    for (const [i, name] of page.items.entries()) {
      last = name
      if (matches([name.id, name.uid, name.url, name.description], text)) found.push(name)
      if (found.length === limit) return { found, last, done: page.done && i === page.items.length - 1 }
    }
    if (page.done) return { found, last, done: true }
    seen += page.items.length
    await turns.next()
  }
  return { found, last, done: false }
}

/** The endpoints as callers see them. Those whose application is gone are left out. */
async function summaries(store: Store, explained: readonly ExplainedEndpoint[]) {
  const refs = await store.applicationRefs(explained.map(({ endpoint }) => endpoint.app))
  const apps = await Promise.all([...refs.values()].map(({ id }) => store.findApplication(id)))
  const names = new Map(apps.map((app) => [app?.key, app?.name]))
  return explained.flatMap(({ endpoint, why, lane }) => {
    const app = refs.get(endpoint.app)
    if (app === undefined) return []
    return [
      {
        id: endpoint.id,
        appId: app.id,
        appUid: app.uid,
        appName: names.get(endpoint.app) ?? '',
        uid: endpoint.uid,
        url: endpoint.url,
        description: endpoint.description,
        state: endpointState(endpoint, lane),
        reason: why.reason,
        detail: why.detail,
        nextAt: isoOrNull(why.nextAt),
        condition: why.condition,
        forecast: toForecastOut(why.forecast),
        waiting: toWaitingOut(lane.queue),
        oldestSince: isoOrNull(lane.queue.oldestSince),
        failingSince: isoOrNull(healthFacts(endpoint, lane).failingSince),
      },
    ]
  })
}
