import type { FastifyInstance, FastifyRequest } from 'fastify'
import { AppError, quotaExceeded } from '../../domain/app-error.ts'
import { type Endpoint, managementApplication } from '../../domain/endpoint.ts'
import { defaultFlow, type Flow } from '../../domain/flow.ts'
import type { NewEndpoint } from '../../store/store.ts'
import type { HttpContext } from '../context.ts'
import { endpointProblems } from '../endpoint-problems.ts'
import type { EndpointScope } from '../endpoint-scope.ts'
import { isRef, requireEndpoint } from '../lookup.ts'
import { PageQuery, paginate } from '../page.ts'
import {
  EndpointIn,
  EndpointPatch,
  EndpointPut,
  toEndpointChange,
  toEndpointOut,
  toEndpointReplacement,
  toNewEndpoint,
} from '../schemas/endpoint.ts'
import { flowProblems } from '../schemas/flow.ts'
import { shapingProblems } from '../schemas/shaping.ts'
import { makeSecret, readSecret, secretProblem } from '../secret.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

interface OfEndpoint {
  Params: { app: string; endpoint: string }
}

const inProblems = compile(EndpointIn, 'body')
const putProblems = compile(EndpointPut, 'body')
const patchProblems = compile(EndpointPatch, 'body')
const pageProblems = compile(PageQuery, 'query')

/** Endpoints: create, list, get, replace, change, delete. */
export function endpointRoutes(api: FastifyInstance, context: HttpContext, scope: EndpointScope): void {
  const { store, checkUrl, randomBytes, limits } = context
  const one = `${scope.path}/:endpoint`

  api.post(scope.path, async (request, reply) => {
    const app = await scope.owner(request.params)
    refuseIf(inProblems(request.body))
    const input = request.body as EndpointIn
    refuseHiding(request, input)
    const secret = input.secret == null ? makeSecret(randomBytes) : readSecret(input.secret)
    const problems = await problemsOf(input)
    if (secret === undefined) problems.push(secretProblem('secret'))
    refuseIf(problems)
    const endpoint = await store.createEndpoint(
      app,
      checked(request, toNewEndpoint(input, secret as string)),
      atMost(app),
    )
    return reply.code(201).send(toEndpointOut(endpoint))
  })

  api.get(scope.path, async (request) => {
    const app = await scope.owner(request.params)
    const query = readQuery(PageQuery, request.query)
    refuseIf(pageProblems(query))
    return paginate('ep', query as PageQuery, 'descending', (page) => store.listEndpoints(app, page), toEndpointOut, 16)
  })

  api.get<OfEndpoint>(one, async (request) => toEndpointOut(await find(request)))

  api.put<OfEndpoint>(one, async (request, reply) => {
    const app = await scope.owner(request.params)
    refuseIf(putProblems(request.body))
    const input = request.body as EndpointPut
    refuseHiding(request, input)
    refuseIf(await problemsOf(input))
    const { endpoint, created } = await put(request, app, input)
    return reply.code(created ? 201 : 200).send(toEndpointOut(endpoint))
  })

  api.patch<OfEndpoint>(one, async (request) => {
    const before = await find(request)
    refuseIf(patchProblems(request.body))
    const input = request.body as EndpointPatch
    refuseHiding(request, input)
    refuseIf(await problemsOf(input))
    const its = toEndpointChange(input)
    return toEndpointOut(await change(request, before, (stored) => checked(request, its, stored)))
  })

  api.delete<OfEndpoint>(one, async (request, reply) => {
    const { app, key } = await find(request)
    await store.deleteEndpoint(app, key)
    return reply.code(204).send()
  })

  /** The operator's own endpoints are not counted. */
  function atMost(app: number): number | undefined {
    return app === managementApplication ? undefined : limits.maxEndpointsPerApp
  }

  async function find(request: FastifyRequest<OfEndpoint>): Promise<Endpoint> {
    return requireEndpoint(store, await scope.owner(request.params), request.params.endpoint)
  }

  async function problemsOf(input: EndpointPatch) {
    const problems = endpointProblems(input, checkUrl)
    const named = (input.eventTypes ?? input.filterTypes ?? []).length
    if (named > limits.maxEventTypesPerEndpoint) {
      throw quotaExceeded('An endpoint', limits.maxEventTypesPerEndpoint, 'event types', 'maxEventTypesPerEndpoint')
    }
    return problems.length > 0 ? problems : scope.subscriptionProblems(input)
  }

  async function change(
    request: FastifyRequest<OfEndpoint>,
    before: Endpoint,
    its: Parameters<typeof store.updateEndpoint>[2],
  ): Promise<Endpoint> {
    // Gone between the two: the same answer as a moment later.
    return (await store.updateEndpoint(before.app, before.key, its)) ?? find(request)
  }

  /** Replaces the endpoint, or makes one whose uid is the name it was asked for by. */
  async function put(
    request: FastifyRequest<OfEndpoint>,
    app: number,
    input: EndpointPut,
  ): Promise<{ endpoint: Endpoint; created: boolean }> {
    const ref = request.params.endpoint
    const whole = toEndpointReplacement(input)
    const replacement = (stored: Endpoint) => checked(request, whole, stored)
    const known = isRef(ref) ? await store.findEndpoint(app, ref) : undefined
    const replaced = known && (await store.updateEndpoint(app, known.key, replacement))
    if (replaced) return { endpoint: replaced, created: false }
    if (!isRef(ref) || ref.startsWith('ep_')) throw new AppError('not_found', 'There is no such endpoint.')
    try {
      const made = checked(request, toNewEndpoint({ ...input, uid: input.uid ?? ref }, makeSecret(randomBytes)))
      return { endpoint: await store.createEndpoint(app, made, atMost(app)), created: true }
    } catch (error) {
      // Between looking and creating, another caller may have created it.
      if (!(error instanceof AppError) || error.code !== 'conflict') throw error
      const other = await store.findEndpoint(app, ref)
      const after = other && (await store.updateEndpoint(app, other.key, replacement))
      if (after === undefined) throw error
      return { endpoint: after, created: false }
    }
  }
}

/** What a subscriber is not to see is not the subscriber's to say. */
function refuseHiding({ caller }: FastifyRequest, { shape, region }: EndpointPatch): void {
  if (caller?.capabilities === undefined || (shape === undefined && region === undefined)) return
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

/** The fields to be stored, if the endpoint's settings go together afterwards and its caller may set them. */
function checked<T extends Partial<NewEndpoint>>({ caller }: FastifyRequest, its: T, before?: Endpoint): T {
  const flow = { ...(before?.flow ?? defaultFlow), ...its.flow }
  if (caller?.capabilities !== undefined) refuseRefusing(flow, before?.flow ?? defaultFlow)
  refuseIf([...flowProblems(flow), ...shapingProblems({ ...flow, secrets: its.secrets ?? before?.secrets })])
  return its
}
