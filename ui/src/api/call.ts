import { signal } from '@preact/signals'
import { apiRoot, isPathStep } from '../../../src/domain/api.ts'
import { ask } from './heard.ts'
import type { Operations, Problem, ValidationProblem } from './schema.ts'

/** Requests to the API: typed by method and path, `call('GET /app/{app_id}', { path: { app_id } })`. */
export type OperationName = keyof Operations
export type Answer<Name extends OperationName> = Operations[Name]['answer']

/** A POST with the same key is carried out once, and answered as the first time. */
interface Once {
  readonly once?: string
}

/** A part of a request is left out where it has no field. */
type Part<Key extends string, Value> = object extends Value
  ? { readonly [K in Key]?: Value | undefined }
  : { readonly [K in Key]: Value }
export type Input<Name extends OperationName> = Once &
  Part<'path', Operations[Name]['path']> &
  Part<'query', Operations[Name]['query']> &
  (undefined extends Operations[Name]['body']
    ? { readonly body?: Operations[Name]['body'] }
    : { readonly body: Operations[Name]['body'] })

/** An input that no field of is required may be left out as a whole. */
export type Inputs<Name extends OperationName> =
  object extends Input<Name> ? [input?: Input<Name>] : [input: Input<Name>]

/** An answer that is no success. `fields` has the message of each field that the server refused. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly fields: Readonly<Record<string, string>>

  constructor(status: number, problem: Partial<Problem | ValidationProblem>) {
    const { detail, title = `The server answered ${status}.`, code = '' } = problem
    const list = Array.isArray(detail) ? detail : []
    super(
      list.length > 0
        ? list.map(({ loc, msg }) => `${loc.slice(1).join('.')}: ${msg}`).join('\n')
        : String(detail || title),
    )
    this.status = status
    this.code = code
    this.fields = Object.fromEntries(list.map(({ loc, msg }) => [loc.slice(1).join('.'), msg]))
  }
}

/** Called when the server does not know the caller, or no more. */
export const signedOut = signal(false)

/** The token against forged requests. The server gives it with the session, and each change sends it back. */
let forgeryToken: string | undefined

export function setForgeryToken(token: string | undefined): void {
  forgeryToken = token
}

/** Headers of every request: the portal has a session of its own. */
let always: Readonly<Record<string, string>> = {}

export function sendAlways(headers: Readonly<Record<string, string>>): void {
  always = headers
}

/** The parameters that stand for these headers at a stream, which sends none; undefined when a token cannot be sent so. */
export function streamQuery(): Readonly<Record<string, string>> | undefined {
  if (always.authorization !== undefined) return undefined
  const session = always['sluice-session']
  return session === undefined ? {} : { session }
}

export async function call<Name extends OperationName>(
  operation: Name,
  ...[input]: Inputs<Name>
): Promise<Answer<Name>> {
  const { path, query, body, once } = (input ?? {}) as Once & { path?: object; query?: object; body?: unknown }
  const response = await send(operation, { path, query, body, ...(once !== undefined && { once }) })
  if (response.status === 204) return undefined as Answer<Name>
  const isJson =
    response.headers.get('content-type')?.includes('json') && !response.headers.get('content-type')?.includes('jsonl')
  return (isJson ? await response.json() : await response.text()) as Answer<Name>
}

interface Request extends Once {
  readonly path?: object | undefined
  readonly query?: object | undefined
  readonly body?: unknown
  readonly contentType?: string
  readonly signal?: AbortSignal
  /** A key or token in place of the session: to sign in. */
  readonly bearer?: string
}

/** Reads whose answers have not begun, and the number of deletions under way. */
const reads = new Set<Promise<Response>>()
let deletions = 0

/** Whether a deletion is under way: a page does not ask again about the thing that may be gone. */
export function isDeleting(): boolean {
  return deletions > 0
}

/** The longest time for which a deletion waits for reads. */
const readsMs = 2000

/**
 * Sends a request and returns its successful response; throws ApiError for any other. A deletion waits for the reads that the
 * page has sent: a read that the server answers after the deletion is a 404, which browsers write into their console.
 */
export async function send(operation: string, request: Request): Promise<Response> {
  if (operation.startsWith('DELETE ')) {
    deletions++
    try {
      const late = new Promise((resolve) => setTimeout(resolve, readsMs))
      await Promise.race([Promise.allSettled([...reads]), late])
      return await sendNow(operation, request)
    } finally {
      deletions--
    }
  }
  const sent = sendNow(operation, request)
  if (!operation.startsWith('GET ')) return sent
  reads.add(sent)
  return sent.finally(() => reads.delete(sent))
}

async function sendNow(
  operation: string,
  { path, query, body, contentType, signal, bearer, once }: Request,
): Promise<Response> {
  const [method = 'GET', template = ''] = operation.split(' ')
  const headers: Record<string, string> = { ...always }
  if (body !== undefined) headers['content-type'] = contentType ?? 'application/json'
  if (once !== undefined) headers['idempotency-key'] = once
  if (bearer !== undefined) headers.authorization = `Bearer ${bearer}`
  if (method !== 'GET' && forgeryToken !== undefined) headers['x-sluice-token'] = forgeryToken
  const url = urlOf(template, path, query)
  const answered = ask()
  const response = await fetch(url, {
    method,
    headers,
    ...(body !== undefined && { body: contentType === undefined ? JSON.stringify(body) : (body as BodyInit) }),
    ...(signal && { signal }),
  }).catch((error: unknown) => {
    answered(signal?.aborted === true)
    if (signal?.aborted) throw error
    throw new ApiError(0, { detail: 'The server cannot be reached.', code: 'unreachable' })
  })
  answered(true)
  if (response.ok) return response
  if (response.status === 401 && bearer === undefined) signedOut.value = true
  throw new ApiError(response.status, await response.json().catch(() => ({})))
}

/** A name as a step of a path. A browser would resolve `.` and `..`, and the request would be about something else. */
function written(name: string): string {
  if (isPathStep(name)) return encodeURIComponent(name)
  throw new ApiError(0, { detail: `${JSON.stringify(name)} cannot be named in a URL; use its id.`, code: 'no_name' })
}

/** The address of an operation with its parameters filled in. */
export function urlOf(template: string, path: object = {}, query: object = {}): string {
  const names = path as Readonly<Record<string, string>>
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => written(names[name] ?? ''))
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    for (const each of [value].flat())
      if (each !== undefined && each !== null && each !== '') search.append(name, String(each))
  }
  const text = search.toString()
  return `${apiRoot}${filled}${text === '' ? '' : `?${text}`}`
}
