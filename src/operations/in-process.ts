import { parse } from 'node:querystring'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { Static, TSchema } from 'typebox'
import { apiRoot, isPathStep } from '../domain/api.ts'
import { AppError, type FieldError, noRoute } from '../domain/app-error.ts'
import { LiveStream } from '../features/live/stream-service.ts'
import { type KnownRoute, routes } from '../features/routes.ts'
import { fixedCaller } from './auth.ts'
import { asAppError } from './errors.ts'
import { type Answer, type Pipeline, pipelineOf, type Transport } from './pipeline.ts'
import type { Incoming, JsonLines, Route } from './route.ts'
import type { Services } from './services.ts'

export type Method = Route['method']

/** Carries out an operation of the API whose answer the caller knows. */
export type Request = <T = unknown>(method: Method, path: string, body?: unknown) => Promise<T>

/**
 * Carries out an operation of the API, such as `('GET', '/app/acme')`; rejects with AppError when it is refused. The answer has
 * the type of the route that the path names; `unknown` when the path is a string that is only known at run time.
 */
export interface TypedRequest {
  <M extends Method, const Path extends string>(method: M, path: Path, body?: unknown): Promise<AnswerOf<M, Path>>
  <T>(method: Method, path: string, body?: unknown): Promise<T>
}

/** The answer to a method and a path. */
type AnswerOf<M extends Method, Path extends string> = ShownOf<Matching<M, StepsOf<Path>>>

type ShownOf<R> = [R] extends [never] ? unknown : R extends { readonly answers: infer A } ? Shown<A[keyof A]> : never

/** JSON Lines are answered as text, and no body as undefined. */
type Shown<Answer> = Answer extends JsonLines ? string : Answer extends TSchema ? Static<Answer> : undefined

/** The routes that a path names. Distributes over all routes. */
type Matching<M, Steps, R = KnownRoute> = R extends { readonly method: M; readonly path: infer P extends string }
  ? P extends string
    ? IsMatch<StepsOf<P>, Steps> extends true
      ? R
      : never
    : never
  : never

type StepsOf<Path extends string> = Path extends `${infer Before}?${string}`
  ? StepsOf<Before>
  : Path extends `${infer Step}/${infer Rest}`
    ? [Step, ...StepsOf<Rest>]
    : [Path]

/** A step of a path fits the same word, and any step fits a name such as `:app`. */
type IsMatch<Pattern, Steps> = Pattern extends [infer First, ...infer Others]
  ? Steps extends [infer Step, ...infer Rest]
    ? First extends `:${string}`
      ? IsMatch<Others, Rest>
      : Step extends First
        ? IsMatch<Others, Rest>
        : false
    : false
  : Steps extends []
    ? true
    : false

/** The paths of the routes with a method. */
type PathOf<M extends Method> = Extract<KnownRoute, { readonly method: M }>['path']

/** One text for each name in a path. */
type NamesOf<Path extends string> = Path extends `${string}/:${string}/${infer Rest}`
  ? [string, ...NamesOf<`/${Rest}`>]
  : Path extends `${string}/:${string}`
    ? [string]
    : []

/**
 * Makes a function of a route. It takes the names in the path in their order, and then the query of a GET or the body; `query`
 * is the same at each call.
 */
export type CallRoute = <M extends Method, const Path extends PathOf<M>>(
  method: M,
  path: Path,
  query?: object,
) => (...given: [...names: NamesOf<Path>, input?: object]) => Promise<AnswerOf<M, Path>>

export function routeCalls(request: Request): CallRoute {
  return (method, path, query) =>
    async (...given) => {
      const rest: unknown[] = [...given]
      const filled = path.replace(/:\w+/g, (step) => written(step, String(rest.shift())))
      const [input] = rest as [object | undefined]
      if (method === 'GET') return request(method, filled + queryOf({ ...query, ...input }))
      return request(method, filled + queryOf(query), input)
    }
}

/** A name as a step of a path. Throws AppError for one that would lead to another path. */
function written(step: string, name: string): string {
  if (isPathStep(name)) return encodeURIComponent(name)
  throw new AppError(
    'invalid_request',
    `${JSON.stringify(name)} is no name of ${step.slice(1)}: it stands for another path.`,
  )
}

/** The query of a path; '' without fields. A list is written with commas, an instant as RFC 3339. */
function queryOf(fields: object = {}): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(fields)) {
    if (value != null) query.set(name, value instanceof Date ? value.toISOString() : String(value))
  }
  return query.size === 0 ? '' : `?${query}`
}

/**
 * Carries out operations without a server: the same routes with the same checks, lookups and rows in the audit log, but no
 * key, no rates and no Fastify. The program itself is the caller, with every permission. `url` is the address at which the
 * program listens; URLs of sources begin with it, unless `publicUrl` is set.
 */
export function inProcess(services: Services, url = 'http://localhost'): Request {
  const { protocol, host } = new URL(url)
  const pipelines = new Map<Route, Pipeline>()
  const pipelineFor = (route: Route) => {
    const known = pipelines.get(route) ?? pipelineOf(route, services)
    pipelines.set(route, known)
    return known
  }

  return async <T>(method: Method, path: string, body?: unknown): Promise<T> => {
    let isPublish = false
    try {
      const { route, params, query } = find(method, path)
      isPublish = route.need !== 'open' && route.need.scope === 'publish'
      const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
      const limit = route.bodyLimit?.(services) ?? services.bodyLimitBytes
      if (bytes !== undefined && bytes.byteLength > limit) {
        throw new AppError('payload_too_large', `The body is larger than bodyLimit, ${limit} bytes.`)
      }
      const request: Incoming = {
        method,
        url: apiRoot + path,
        protocol: protocol.slice(0, -1),
        host,
        headers: bytes === undefined ? {} : { 'content-type': 'application/json' },
        params,
        query,
        body: bytes,
        caller: route.need === 'open' ? null : fixedCaller,
        address: undefined,
        routeOptions: { url: apiRoot + route.path },
      }
      return (await shownOf(route, await pipelineFor(route)(request, transport))) as T
    } catch (error) {
      const refusal = refusalOf(error, services)
      if (isPublish) services.onRefusedPublish?.(refusal instanceof AppError ? refusal.code : 'internal')
      throw refusal
    }
  }
}

/** A program reads no header that names ignored fields. */
const transport: Transport = { unknownFields: 'refused' }

/** Words come before names: `/app/:app/msg/batch` before `/app/:app/msg/:message`. */
const ordered = routes
  .filter(({ root }) => root === undefined)
  .map((route) => ({ route, steps: route.path.split('/').slice(1), rank: route.path.replace(/:\w+/g, '\uffff') }))
  .sort((a, b) => (a.rank < b.rank ? -1 : 1))

function find(method: Method, target: string) {
  const [path = '', ...rest] = target.split('?')
  const given = path.split('/').slice(1).map(decoded)
  const matching = ordered.filter(
    ({ steps }) => steps.length === given.length && steps.every((step, i) => step.startsWith(':') || step === given[i]),
  )
  const match = matching.find(({ route }) => route.method === method)
  if (match === undefined) {
    if (matching.length === 0) throw noRoute(method, path)
    throw new AppError('method_not_allowed', `The path does not have the method ${method}.`)
  }
  const names = match.steps.flatMap((step, i) => (step.startsWith(':') ? [[step.slice(1), given[i] ?? '']] : []))
  return { route: match.route, params: Object.fromEntries(names), query: { ...parse(rest.join('?')) } }
}

function decoded(step: string): string {
  try {
    return decodeURIComponent(step)
  } catch (error) {
    throw new AppError('invalid_request', 'The path is not a valid one.', [], { cause: error })
  }
}

/** The answer as a program takes it: the value that its JSON stands for, or the text of JSON lines. */
async function shownOf({ answers }: Route, { status, body }: Answer): Promise<unknown> {
  if (body instanceof LiveStream) {
    body.destroy()
    throw new AppError('invalid_request', 'The live stream has no end; follow it over HTTP.')
  }
  const schema = answers[status] ?? null
  if (schema === null || body === undefined) return undefined
  const bytes = body instanceof Readable ? await buffer(body) : body
  const text = Buffer.isBuffer(bytes) ? bytes.toString('utf8') : JSON.stringify(bytes)
  return 'lines' in schema ? text : JSON.parse(text)
}

function refusalOf(error: unknown, { onBug }: Services): Error {
  const known = asAppError(error)
  if (known === undefined) {
    onBug(error)
    return new Error('Sluice failed for no fault of the caller; its log says how.', { cause: error })
  }
  return known.code === 'validation' && known.fields.length > 0 ? invalid(known.fields) : known
}

/** The error for fields that are wrong. Its message names them all: a program's log may show nothing else. */
export function invalid(fields: readonly FieldError[]): AppError {
  const list = fields.map(({ at, message }) => `${at.slice(1).join('.')} ${message.replace(/\.$/, '')}`).join('; ')
  return new AppError('validation', `Some fields are not valid: ${list}.`, fields)
}
