import type { Static } from 'typebox'
import { AppError, type FieldError, quotaExceeded } from '../../domain/app-error.ts'
import { defaultFlow, type Flow } from '../../domain/flow.ts'
import { nearest } from '../../domain/phrases.ts'
import { admin, type Need } from '../../operations/access.ts'
import { listOf } from '../../operations/fields.ts'
import { found, newUid } from '../../operations/lookup.ts'
import { byId, listRows, PageQuery } from '../../operations/page.ts'
import { endpointProblems, flowProblems, shapingProblems } from '../../operations/problems.ts'
import { type Incoming, Reply, route } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import { refuseIf } from '../../operations/validate.ts'
import type { NewEndpoint, PageRequest, Store } from '../../store/store.ts'
import { makeSecret, readSecret, secretProblem } from '../../wire/secret.ts'
import type { Application } from '../applications/noun.ts'
import { completed, completedProblems } from '../credentials/schemas.ts'
import { endpointHeaderRoutes, endpointSecretRoutes } from '../credentials/scope-service.ts'
import { isShownTo } from '../event-types/noun.ts'
import type { Source } from '../sources/noun.ts'
import { type Endpoint, managementApplication } from './rules.ts'
import {
  EndpointIn,
  EndpointOut,
  EndpointPatch,
  EndpointPut,
  showEndpoint,
  toEndpointChange,
  toEndpointReplacement,
  toNewEndpoint,
  toStoredOut,
} from './schemas.ts'

export function endpointRoutes({ path, id, whose, needs, subscribesToEventTypes }: EndpointScope) {
  const one = `${path}/:endpoint` as const

  async function problemsOf(
    input: EndpointPatch,
    { store, checkUrl, limits }: Services,
    { caller }: Incoming,
    before?: Endpoint,
  ): Promise<FieldError[]> {
    const problems = endpointProblems(input, checkUrl)
    const named = (input.eventTypes ?? input.filterTypes ?? []).length
    if (named > limits.maxEventTypesPerEndpoint) {
      throw quotaExceeded('An endpoint', limits.maxEventTypesPerEndpoint, 'event types', 'maxEventTypesPerEndpoint')
    }
    if (problems.length > 0 || !subscribesToEventTypes || limits.checkEventTypes === 'never') return problems
    return eventTypeProblems(store, input, limits.checkEventTypes === 'always', caller?.featureFlags ?? null, before)
  }

  return [
    route(`GET ${path}`, needs.view, {
      id: `${id}.list`,
      summary: `List the endpoints of ${whose}`,
      query: PageQuery,
      answers: { 200: listOf(EndpointOut) },
      handle: async (call, { store, clock, explainer }) => {
        const list = (page: PageRequest) => store.listEndpoints(ownerOf(call), page)
        const page = await listRows(clock, call.query, { ...byId('ep'), list, toOut: toStoredOut, rowsAtOnce: 16 })
        // All at once: the owners of their lanes are asked together.
        const states = await explainer.states(page.data.map(({ row }) => row))
        return { ...page, data: page.data.map(({ out }, i) => ({ ...out, state: states[i] ?? 'active' })) }
      },
    }),
    route(`POST ${path}`, needs.manage, {
      id: `${id}.create`,
      summary: `Create an endpoint of ${whose}`,
      description:
        'All workers together keep the limits: at most burst + rate × time attempts, never more than concurrency at once.',
      body: EndpointIn,
      answers: { 201: EndpointOut },
      handle: async (call, services) => {
        const { request } = call
        const body = inChannel(call, call.body)
        refuseHiding(request, body)
        const secret =
          body.secret == null ? makeSecret(services.randomBytes) : readSecret(body.secret, body.signature ?? 'standard')
        const problems = await problemsOf(body, services, request)
        refuseIf(secret === undefined ? [...problems, secretProblem('secret')] : problems)
        const app = ownerOf(call)
        const made = checked(request, completed(toNewEndpoint(body, secret ?? ''), body, undefined, 0))
        return showEndpoint(services, await services.store.createEndpoint(app, made, atMost(app, services)))
      },
    }),
    route(`GET ${one}`, needs.view, {
      id: `${id}.get`,
      summary: 'Get an endpoint',
      answers: { 200: EndpointOut },
      handle: ({ endpoint }, services) => showEndpoint(services, endpoint),
    }),
    route(`PUT ${one}`, needs.manage, {
      id: `${id}.update`,
      summary: 'Replace an endpoint, or create it',
      description: 'Absent fields return to their defaults; uid, headers, credentials, shape, region and secret stay.',
      body: EndpointPut,
      answers: { 200: EndpointOut, 201: EndpointOut },
      lookup: 'upsert',
      handle: async (call, services) => {
        const { params, request, endpoint } = call
        const body = inChannel(call, call.body)
        refuseHiding(request, body)
        refuseIf(await problemsOf(body, services, request, endpoint))
        const replaced = endpoint && (await replace(services.store, request, endpoint, body))
        if (replaced) return showEndpoint(services, replaced)
        const { created, ...made } = await createNamed(services, request, ownerOf(call), params.endpoint, body)
        return new Reply(created ? 201 : 200, await showEndpoint(services, made.endpoint))
      },
    }),
    route(`PATCH ${one}`, needs.manage, {
      id: `${id}.patch`,
      summary: 'Change some fields of an endpoint',
      description: 'Absent fields stay; null unsets.',
      body: EndpointPatch,
      answers: { 200: EndpointOut },
      handle: async ({ endpoint, body, request, params }, services) => {
        refuseHiding(request, body)
        refuseIf(await problemsOf(body, services, request, endpoint))
        const change = toEndpointChange(body)
        const changed = await services.store.updateEndpoint(endpoint.app, endpoint.key, (stored, now) =>
          checked(request, completed(change, body, stored, now), stored),
        )
        return showEndpoint(services, found(changed, 'endpoint', params.endpoint))
      },
    }),
    route(`DELETE ${one}`, needs.manage, {
      id: `${id}.delete`,
      summary: 'Delete an endpoint',
      description: 'Deliveries that have not ended are cancelled, and the uid is free again.',
      answers: { 204: null },
      handle: ({ endpoint: { app, key } }, { store }) => store.deleteEndpoint(app, key),
    }),
  ]
}

/** The key of the application that owns the endpoints of a request. */
function ownerOf({ app, source }: Owner): number {
  return app?.key ?? source?.app ?? managementApplication
}

interface Owner {
  readonly params: object
  readonly app?: Application
  readonly source?: Source
}

/** An endpoint of a source has the channel of the source, unless it names others. */
function inChannel<T extends Static<typeof EndpointPut>>({ source }: Owner, input: T): T {
  return source === undefined || input.channels !== undefined ? input : { ...input, channels: [source.id] }
}

/** How many endpoints an application may have. The operator's own endpoints are not counted. */
function atMost(app: number, { limits }: Services): number | undefined {
  return app === managementApplication ? undefined : limits.maxEndpointsPerApp
}

function replace(store: Store, request: Incoming, { app, key }: Endpoint, input: Static<typeof EndpointPut>) {
  const replacement = toEndpointReplacement(input)
  return store.updateEndpoint(app, key, (stored, now) =>
    checked(request, completed(replacement, input, stored, now), stored),
  )
}

/** Creates the endpoint whose uid is the name in the path. Another caller may create it first; it is replaced then. */
async function createNamed(
  services: Services,
  request: Incoming,
  app: number,
  uid: string,
  input: Static<typeof EndpointPut>,
) {
  const { store, randomBytes } = services
  newUid('endpoint', 'ep', uid)
  try {
    const named = toNewEndpoint({ ...input, uid: input.uid ?? uid }, makeSecret(randomBytes))
    const made = checked(request, completed(named, input, undefined, 0))
    return { endpoint: await store.createEndpoint(app, made, atMost(app, services)), created: true }
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'conflict') throw error
    const other = await store.findEndpoint(app, uid)
    const replaced = other && (await replace(store, request, other, input))
    if (replaced === undefined) throw error
    return { endpoint: replaced, created: false }
  }
}

/** A portal token may not change what its endpoint gets of a payload, nor the way on which it leaves the operator's network. */
function refuseHiding({ caller }: Incoming, { shape, region, egressProxy }: EndpointPatch): void {
  if (caller?.capabilities === undefined) return
  if (egressProxy !== undefined) {
    throw new AppError('insufficient_access', 'This token may not choose the egress proxy of the endpoint.')
  }
  if (shape === undefined && region === undefined) return
  throw new AppError('insufficient_access', 'This token may not change what the endpoint gets of a payload.')
}

/**
 * A subscriber's settings never refuse its producer: with `maxWaiting: 1` and a pause, one subscriber would have every
 * publish of the application answered 429. A limit that refuses is an operator's to set; a subscriber's drops.
 */
function refuseRefusing({ maxWaiting, overflow }: Flow, before: Flow): void {
  if (maxWaiting === null || overflow !== 'refuse') return
  if (maxWaiting === before.maxWaiting && before.overflow === 'refuse') return
  const message =
    'This token may not limit what waits by refusing publishes; give `overflow` as `drop_new` or `drop_oldest` with it.'
  throw new AppError('insufficient_access', message)
}

/** The fields to store, if the endpoint's settings go together afterwards and its caller may set them. */
function checked<T extends Partial<NewEndpoint>>({ caller }: Incoming, fields: T, before?: Endpoint): T {
  const flow = { ...(before?.flow ?? defaultFlow), ...fields.flow }
  if (caller?.capabilities !== undefined) refuseRefusing(flow, before?.flow ?? defaultFlow)
  refuseIf([
    ...flowProblems(flow),
    ...shapingProblems({ ...flow, secrets: fields.secrets ?? before?.secrets }),
    ...completedProblems(fields, before),
  ])
  return fields
}

/**
 * Subscriptions to event types that do not exist, that the caller does not see, or that are archived. An endpoint that
 * subscribed to one before keeps it.
 */
async function eventTypeProblems(
  store: Store,
  { eventTypes, filterTypes }: EndpointPatch,
  always: boolean,
  flags: ReadonlySet<string> | null,
  before: Endpoint | undefined,
): Promise<FieldError[]> {
  const fields = Object.entries({ eventTypes: eventTypes ?? [], filterTypes: filterTypes ?? [] })
  const names = new Set(fields.flatMap(([, patterns]) => patterns).filter((pattern) => !pattern.endsWith('*')))
  const known = names.size === 0 ? undefined : await store.eventTypesAmong([...names], always)
  if (known === undefined) return []
  for (const { name } of known) if (before?.eventTypes?.includes(name)) names.delete(name)
  const shown = new Map(known.filter((each) => isShownTo(flags, each)).map((each) => [each.name, each]))
  const unknown = [...names].filter((name) => !shown.has(name))
  const hints = unknown.length === 0 ? undefined : await suggestions(store, unknown, flags)
  return fields.flatMap(([field, patterns]) =>
    patterns.flatMap((name, i) => {
      if (!names.has(name) || shown.get(name)?.archived === false) return []
      const state = shown.has(name) ? 'archived' : 'unknown'
      const message = `${state} event type ${JSON.stringify(name)}${hints?.get(name) ?? ''}`
      return [{ at: ['body', field, i], message, type: 'event_type' }]
    }),
  )
}

/** Comparing two names takes the product of their lengths: these limits keep all of it below 2 million steps. */
const suggested = { names: 3, longest: 48, among: 250 } as const

/** The nearest known name that the caller sees, for each of the first unknown ones. */
async function suggestions(
  store: Store,
  unknown: readonly string[],
  flags: ReadonlySet<string> | null,
): Promise<ReadonlyMap<string, string>> {
  const isShort = (name: string) => name.length <= suggested.longest
  const known = (await store.eventTypeNames(suggested.among, flags)).filter(isShort)
  const hints = unknown
    .filter(isShort)
    .slice(0, suggested.names)
    .flatMap((name) => {
      const meant = nearest(name, known)
      return meant === undefined ? [] : [[name, `; did you mean ${JSON.stringify(meant)}?`] as const]
    })
  return new Map(hints)
}

/** Where endpoints live. Those of operational webhooks are endpoints like any other, of an application of the server. */
export interface EndpointScope {
  /** The path of the list. */
  readonly path: '/app/:app/endpoint' | '/operational-webhook/endpoint' | '/source/:source/endpoint'

  /** The beginning of every operation's id. */
  readonly id: string
  readonly whose: string
  readonly needs: Readonly<Record<'view' | 'manage' | 'viewSecret' | 'changeSecret', Need>>
  /** Whether they may subscribe only to event types that exist; operational webhooks are none. */
  readonly subscribesToEventTypes: boolean
}

/** For endpoints that only administrators see. */
export const forAdmins: EndpointScope['needs'] = {
  view: admin,
  manage: admin,
  viewSecret: { ...admin, audited: 'all' },
  changeSecret: admin,
}

export function routesAt(place: EndpointScope) {
  return [...endpointRoutes(place), ...endpointSecretRoutes(place), ...endpointHeaderRoutes(place)]
}
