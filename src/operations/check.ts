import type { IncomingHttpHeaders } from 'node:http'
import { type TObject, type TProperties, type TSchema, Type } from 'typebox'
import { AppError, type FieldError } from '../domain/app-error.ts'
import { textWithout } from '../features/messages/reading-service.ts'
import { digest, keyLifeMs } from '../intake/publication.ts'
import type { Scanner } from '../json/scan.ts'
import type { Once } from '../store/publishing.ts'
import type { FoundThings } from './lookup.ts'
import { payloadProblems } from './payload.ts'
import { anyBytes, type Incoming, isBodyOptional, type Route } from './route.ts'
import type { Keywords } from './schema-check.ts'
import { IgnoredFields } from './unknown-names.ts'
import { checkContents, compile, nullsRemover, type ProblemsOf, queryReader, readJson, refuseIf } from './validate.ts'

/** How the bytes of a body are taken in. */
export type BodyKind = 'value' | 'bytes' | 'split' | 'any' | 'lines'
/** The content types of JSON lines. */
export const lineTypes: ReadonlySet<string> = new Set([
  'application/jsonl',
  'application/x-ndjson',
  'application/x-jsonlines',
])

export function kindOf({ body, reading = 'value' }: Route): BodyKind {
  if (body === anyBytes) return 'any'
  return body !== undefined && 'lines' in body ? 'lines' : reading
}

/** Whether handlers get the bytes of such a body as they came. */
function isBytes(kind: BodyKind): boolean {
  return kind === 'bytes' || kind === 'any'
}

/**
 * Makes the function that parses a body as its route takes it in. It throws AppError when that is no acceptable JSON. An empty
 * body is none: clients send the content type of JSON with every request, also to routes that take no body.
 */
export function parserOf(route: Route, scanner: Scanner): (request: Incoming) => unknown {
  const kind = kindOf(route)
  // A sender of webhooks writes what it likes to the URL of a source.
  const isIgnored = route.need === 'open' && route.body === undefined
  return ({ body, headers }) => {
    if (!Buffer.isBuffer(body) || isIgnored) return undefined
    if (kind === 'any') return body
    if (body.length === 0) return undefined
    if (kind === 'bytes' || (kind === 'lines' && lineTypes.has(mediaType(headers) ?? ''))) return body
    return kind === 'split' ? splitBody(scanner, body) : readJson(scanner, body)
  }
}

export function mediaType(headers: IncomingHttpHeaders): string | undefined {
  const type = headers['content-type']
  return type === 'application/json' ? type : type?.split(';', 1)[0]?.trim().toLowerCase()
}

/** Takes a body apart into its payload, which stays bytes, and the rest. Throws AppError when it is no acceptable JSON. */
function splitBody(scanner: Scanner, bytes: Buffer): Split {
  const span = scanner.scan(bytes, 'payload')
  const head = checkContents(JSON.parse(textWithout(bytes, span)))
  return { head, payload: span && bytes.subarray(span.start, span.end) }
}

/** The checks of a body that is there. */
interface BodyChecks {
  readonly removeNulls?: ((value: unknown) => void) | undefined
  readonly problemsOf: ProblemsOf
}

const none: readonly FieldError[] = []
const unchecked: BodyChecks = { problemsOf: () => none }
const noBytes = Buffer.alloc(0)

/** How a route sees its body. `read` throws AppError when there is no body and the route needs one. */
function bodyReaderOf(route: Route) {
  const { body: schema } = route
  if (schema === undefined) return { ...unchecked, read: () => undefined }
  const kind = kindOf(route)
  // The scanner refuses an empty body.
  if (isBytes(kind)) return { ...unchecked, read: (body: unknown) => body ?? noBytes }
  const isOptional = isBodyOptional(route)
  const { removeNulls, problemsOf } = checksOf(kind, schema as TSchema)
  const read = (body: unknown) => {
    if (body === undefined && !isOptional) throw new AppError('invalid_json', 'The body is empty.')
    if (body === undefined) return {}
    removeNulls?.(body)
    return body
  }
  return { read, problemsOf }
}

function checksOf(kind: BodyKind, schema: TSchema): BodyChecks {
  // The handler reads the lines, and refuses other JSON when it knows its application.
  if (kind === 'lines') return unchecked
  if (kind === 'split') return splitChecks(schema)
  return { removeNulls: nullsRemover(schema), problemsOf: compile(schema, 'body') }
}

const nullBytes = Buffer.from('null')

interface Split {
  head: unknown
  payload: Buffer | undefined
}

/** The checks of a body that was taken apart: of its fields, and of a payload that may be absent. */
function splitChecks(schema: TSchema): BodyChecks {
  const removeNullsOfHead = nullsRemover(schema)
  const { properties } = schema as TObject<TProperties>
  const { required = [], additionalProperties = true } = schema as Keywords
  const head = Type.Object({ ...properties, payload: Type.Optional(Type.Null()) }, { additionalProperties })
  const headProblemsOf = compile(head, 'body')
  const isRequired = required.includes('payload')
  const removeNulls = (value: unknown) => {
    const split = value as Split
    removeNullsOfHead?.(split.head)
    if (!isRequired && split.payload?.equals(nullBytes)) split.payload = undefined
  }
  const problemsOf: ProblemsOf = (value, ignored) => {
    const { head, payload } = value as Split
    const problems = [...headProblemsOf(head, ignored)]
    const isObject = typeof head === 'object' && head !== null && !Array.isArray(head)
    const at = ['body', 'payload']
    if (isRequired && isObject && payload === undefined) problems.push({ at, message: 'is required', type: 'required' })
    if (payload) problems.push(...payloadProblems(payload))
    return problems
  }
  return { removeNulls, problemsOf }
}

/** A request after its checks, with the things that its path names. */
export interface CheckedCall extends FoundThings {
  readonly params: Readonly<Record<string, string>>
  readonly query: unknown
  readonly body: unknown
  readonly ignored: IgnoredFields
  readonly request: Incoming
}

/**
 * Unknown parameters are refused where ignoring one would mean more than was asked for: in reads, because it may be a
 * filter; in deletions, because it may be a limit or ask for a trial; and where the schema is closed. Where a read has no
 * parameters at all, and in other changes, clients of other versions may send some.
 */
function queryReaderOf({ method, need, query: schema }: Route) {
  // A sender of webhooks writes what it likes into the URL of a source.
  if (need === 'open' && schema === undefined) return () => [{}, none] as const
  const { additionalProperties } = (schema ?? {}) as Keywords
  const isFilter = method === 'GET' && schema !== undefined
  return queryReader(schema, isFilter || method === 'DELETE' || additionalProperties === false ? 'refused' : 'slips')
}

type Checker = (request: Incoming, ignored: IgnoredFields) => CheckedCall

const checkers = new WeakMap<Route, Checker>()

/**
 * Checks a request of a route. The problems of the query and of the body are listed together. The checks are compiled at
 * the first request of each route: those of all routes take a 15th of the time of a start.
 */
export function checkCall(route: Route, request: Incoming, ignored = new IgnoredFields()): CheckedCall {
  let check = checkers.get(route)
  if (check === undefined) {
    check = checkerOf(route)
    checkers.set(route, check)
  }
  return check(request, ignored)
}

function checkerOf(route: Route): Checker {
  const readParameters = queryReaderOf(route)
  const body = bodyReaderOf(route)
  return (request, ignored) => {
    const [query, problems] = readParameters(request.query, ignored)
    const value = body.read(request.body)
    const more = body.problemsOf(value, ignored)
    refuseIf(more.length === 0 ? problems : [...problems, ...more])
    return { params: request.params as Record<string, string>, query, body: value, ignored, request }
  }
}

/** The header of an answer that was given before: nothing was carried out for this request. */
export const replayed = { 'idempotent-replayed': 'true' } as const

/** Whether a request has an Idempotency-Key. An empty one is none: clients send it where they have no key. */
export function hasKey({ headers }: Incoming): boolean {
  return (headers['idempotency-key'] ?? '') !== ''
}

/**
 * The once-only key of a request with an Idempotency-Key, which may be as long as a header: its own for each caller, route and thing that the path names.
 * `names` are the things by the one name that each has, because a path has several spellings. `content` is all that makes
 * the request what it is; the same key with another content is refused.
 */
export function onceOf(
  request: Incoming,
  names: Readonly<Record<string, string | number>>,
  content: Uint8Array | string,
): Once {
  const parts = ['request', request.caller?.id ?? '', request.routeOptions.url ?? '']
  for (const name of Object.keys(names)) parts.push(name, String(names[name]))
  parts.push(String(request.headers['idempotency-key']))
  return { hash: digest(...parts), fingerprint: digest(content), ttlMs: keyLifeMs }
}

/** The things that a path names, each by its id where it has one; a uid or an eventId is another name for the same. */
export function namesOf(call: CheckedCall): Readonly<Record<string, string>> {
  const found = new Map<string, unknown>(Object.entries(call))
  return Object.fromEntries(
    Object.entries(call.params).map(([name, ref]) => [
      name,
      (found.get(name) as { id?: string } | undefined)?.id ?? ref,
    ]),
  )
}

export function queryOf(url: string): string {
  const start = url.indexOf('?')
  return start < 0 ? '' : url.slice(start + 1)
}
