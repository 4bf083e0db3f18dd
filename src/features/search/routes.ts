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
import { appKeyOf, isRef } from '../../operations/lookup.ts'
import { matches } from '../../operations/page.ts'
import type { Parts } from '../../operations/parts.ts'
import { type Noun, type Out, route } from '../../operations/route.ts'
import type { EndpointName } from '../../store/configuration.ts'
import type { Store } from '../../store/store.ts'
import { endpointState, endpointStates, healthFacts } from '../endpoints/state.ts'
import { toWaitingOut, Waiting } from '../why/routes.ts'
import type { ExplainedEndpoint } from '../why/service.ts'
import { worstKept } from './survey-service.ts'

const kinds = ['application', 'endpoint', 'message', 'schedule', 'source', 'task'] as const

const FoundOut = Type.Object({
  kind: Type.Enum([...kinds], { description: 'Kind of thing.' }),
  id: text('Its id.'),
  appId: nullable(text('Id of its application; null for a task.')),
  name: text('Its display name, URL, event type or kind of work.'),
})
type Found = Out<typeof FoundOut>

const FindOut = Type.Object({ data: Type.Array(FoundOut, { description: 'The best match first, up to 20.' }) })

const most = 20
/** Applications that are searched by name, and for a message by its eventId. */
const searchedApps = 2000
const appsAtOnce = 100

export const finding = {
  tag: 'Find',
  description: 'Search for objects by id, uid, URL or name.',
  schemas: { FoundOut, FindOut },
  routes: [
    route('GET /find', read, {
      id: 'v1.find.get',
      summary: 'Find things by an id, a uid, a URL or a name',
      description:
        'An id or a uid of an application, endpoint, message, schedule, source or task; the eventId of a message; a part of the URL of an endpoint or of the name of an application. Of very many applications the newest 2,000 are searched by name and for an eventId.',
      query: Type.Object({
        text: Type.String({ minLength: 1, maxLength: 256, description: 'The name, or a part of it.' }),
      }),
      answers: { 200: FindOut },
      handle: async ({ query }, parts) => {
        const wanted = query.text.trim()
        const exact = await byId(parts.store, wanted)
        const data = exact.length > 0 ? exact : await byName(parts, wanted)
        return { data: data.slice(0, most) }
      },
    }),
  ],
} satisfies Noun

type Sources = Pick<Parts, 'store' | 'clock'>

/** The thing that an id names. An id begins with its key, so that each is one read. */
async function byId(store: Store, id: string): Promise<Found[]> {
  if (!isRef(id)) return []
  const prefixes = ['app', 'ep', 'msg', 'sch', 'src'] as const
  const [app, endpoint, message, schedule, source] = prefixes.map((prefix) => decodeKey(prefix, id))
  if (app !== undefined) {
    const found = await store.findApplication(id)
    return found === undefined ? [] : [{ kind: 'application', id, appId: id, name: found.name }]
  }
  if (endpoint !== undefined) {
    const [found] = await store.loadEndpoints([endpoint])
    return found?.id === id ? within(store, found.app, { kind: 'endpoint', id, name: found.url }) : []
  }
  if (message !== undefined) {
    const [found] = await store.loadSummaries([message])
    return found?.id === id ? within(store, found.app, { kind: 'message', id, name: found.eventType }) : []
  }
  if (schedule !== undefined) {
    const page = await store.listSchedules(null, { after: schedule - 1, limit: 1, order: 'ascending' })
    const [found] = page.items
    return found?.id === id ? within(store, found.app, { kind: 'schedule', id, name: found.cron }) : []
  }
  if (source !== undefined) {
    const found = await store.sourceAt(source)
    return found?.id === id ? [{ kind: 'source', id, appId: found.appId, name: found.name }] : []
  }
  if (decodeKey('qtask', id) === undefined) return []
  const task = await store.findTask(id)
  return task === undefined ? [] : [{ kind: 'task', id, appId: null, name: task.work.type }]
}

async function within(store: Store, app: number, found: Omit<Found, 'appId'>): Promise<Found[]> {
  const ref = (await store.applicationRefs([app])).get(app)
  return ref === undefined ? [] : [{ ...found, appId: ref.id }]
}

/** Things whose names contain a text: uids and eventIds as a whole, URLs and display names in part. */
async function byName(sources: Sources, name: string): Promise<Found[]> {
  const { store, clock } = sources
  const found: Found[] = []
  const wanted = name.toLowerCase()
  const canBeRef = isRef(name)
  const turns = Turns.by(clock)
  for (let seen = 0, after: number | null = null; seen < searchedApps && found.length < most; ) {
    const page = await store.listApplications({ after, limit: appsAtOnce, order: 'descending' })
    for (const { key, id, uid, name: display } of page.items) {
      after = key
      if (uid === name) found.unshift({ kind: 'application', id, appId: id, name: display })
      else if (display.toLowerCase().includes(wanted) || uid?.toLowerCase().includes(wanted)) {
        found.push({ kind: 'application', id, appId: id, name: display })
      }
      const message = canBeRef ? await store.findMessage(key, name) : undefined
      if (message !== undefined) found.unshift({ kind: 'message', id: message.id, appId: id, name: message.eventType })
    }
    if (page.done) break
    seen += page.items.length
    await turns.next()
  }
  for (const { id, app, name: display } of canBeRef ? await store.sourcesNamed(name) : []) {
    found.push(...(await within(store, app, { kind: 'source', id, name: display })))
  }
  const endpoints = await searchEndpoints(sources, null, name, null, most)
  const refs = await store.applicationRefs(endpoints.found.map(({ app }) => app))
  for (const { id, url, app } of endpoints.found) {
    const ref = refs.get(app)
    if (ref !== undefined) found.push({ kind: 'endpoint', id, appId: ref.id, name: url })
  }
  return found
}

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
export const EndpointSummaryOut = Type.Object({
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
  waiting: Waiting,
  oldestSince: nullable(instant('Since when the oldest of the counted deliveries has been waiting.')),
  failingSince: nullable(instant('Since when its receiver has failed; null when it does not.')),
})

/** Names that one request looks through; a search that found fewer than asked continues with its iterator. */
const searchedNames = 200_000
const namesAtOnce = 500

export const allEndpoints = route('GET /endpoint', read, {
  id: 'v1.endpoint.list-all',
  summary: 'List the endpoints of all applications with their states',
  description:
    'Each endpoint has the sentence of `why`. A sort by another value than creation lists the worst endpoints of the server first.',
  query: EndpointsQuery,
  answers: { 200: listOf(EndpointSummaryOut) },
  handle: async ({ query, request }, parts) => {
    const { store, explainer } = parts
    const app = await appKeyOf(store, request.caller, query.app)
    const { sort = 'created', limit = pageItems.usual } = query
    if (sort === 'created') return listCreated(parts, app, query, limit)
    const explained =
      sort === 'failing'
        ? (await explainer.failing(app)).slice(0, limit)
        : (await explainer.worst(app, { [sort === 'oldest' ? 'age' : sort]: limit })).worst
    return { data: await summaries(store, explained), iterator: null, prevIterator: null, done: true }
  },
})

async function listCreated(
  parts: Parts,
  app: number | null,
  { search, iterator }: Static<typeof EndpointsQuery>,
  limit: number,
) {
  const after = iterator === undefined ? null : decodeKey('ep', iterator)
  if (after === undefined) {
    const problem = { at: ['query', 'iterator'], message: 'is not an iterator of this list', type: 'iterator' }
    throw new AppError('validation', 'The iterator is not valid.', [problem])
  }
  const { found, last, done } = await searchEndpoints(parts, app, search ?? '', after, limit)
  const explained = await parts.explainer.endpoints(found.map(({ key }) => key))
  const data = await summaries(parts.store, explained)
  return { data, iterator: last?.id ?? null, prevIterator: null, done }
}

/** The newest endpoints whose names contain a text. Each step reads a few hundred names, with a turn for others after it. */
async function searchEndpoints(
  { store, clock }: Sources,
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
  return explained.flatMap(({ endpoint, why, lane, total, isExact, oldestSince }) => {
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
        waiting: { ...toWaitingOut(lane), total, isExact },
        oldestSince: isoOrNull(oldestSince),
        failingSince: isoOrNull(healthFacts(endpoint, lane).failingSince),
      },
    ]
  })
}
