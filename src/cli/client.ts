import { apiRoot, isPathStep, pageItems } from '../domain/api.ts'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import { nearest } from '../domain/phrases.ts'
import { parseExactly } from '../json/exact.ts'
import type { ListOut } from '../operations/page.ts'
import { keyVariable } from '../runtime/config.ts'
import { CommandError, exitCode, pause } from './terminal.ts'

interface ClientDeps {
  /** The server's address, such as `http://127.0.0.1:8484`; a path after the host is kept. */
  readonly url: string
  readonly key: string | undefined
  readonly clock: Clock
  readonly version: string
  /** Whether an unknown application is answered with the most similar one, which costs a list. True by default. */
  readonly suggests?: boolean
  /** The option that named the address, where it is not `--url`. */
  readonly option?: string
}

export type Query = Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>

interface Call {
  readonly query?: Query
  /** Sent as JSON; bytes are sent unchanged. */
  readonly body?: unknown
  readonly contentType?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** A resource of the API. Each command picks the fields that it shows; `--json` prints all of them. */
export type Item = Readonly<Record<string, unknown>>

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

const answerMs = 60_000

/** The server refused a request, or its response was not understood. */
export class ApiProblem extends CommandError {
  readonly status: number
  /** The stable code of the error, when the server gave one. */
  readonly code: string | undefined
  /** The wait that the server asked for. */
  readonly retryAfterMs: number | undefined

  constructor(message: string, status: number, code?: string, retryAfter?: string | null) {
    super(message, exitCodeOf(status))
    this.status = status
    this.code = code
    this.retryAfterMs = /^\d{1,6}$/.test(retryAfter ?? '') ? Number(retryAfter) * 1000 : undefined
  }
}

/** Calls a Sluice server. Every failure is a CommandError with a sentence and an exit code. */
export class Client {
  readonly url: string
  /** The parts that the client was made from. */
  readonly deps: ClientDeps

  constructor(deps: ClientDeps) {
    if (!/^https?:\/\//.test(deps.url) || !URL.canParse(deps.url)) {
      const { option = '--url', url } = deps
      const expected = `a server's address such as http://127.0.0.1:8484, not ${JSON.stringify(url)}`
      throw new CommandError(`${option} must be ${expected}.`, exitCode.misused)
    }
    this.deps = deps
    this.url = deps.url.replace(/\/+$/, '').replace(/\/api\/v1$/, '')
  }

  get(path: string, query?: Query): Promise<Item> {
    return this.ask('GET', path, query === undefined ? {} : { query })
  }

  post(path: string, call: Call = {}): Promise<Item> {
    return this.ask('POST', path, call)
  }

  put(path: string, call: Call): Promise<Item> {
    return this.ask('PUT', path, call)
  }

  patch(path: string, call: Call): Promise<Item> {
    return this.ask('PATCH', path, call)
  }

  delete(path: string, query: Query = {}): Promise<Item> {
    return this.ask('DELETE', path, { query })
  }

  /** One page of a list. */
  async page(path: string, query: Query = {}): Promise<ListOut<Item>> {
    return (await this.get(path, query)) as unknown as ListOut<Item>
  }

  /** Up to `limit` items of a list, over as many pages as it takes, and whether there are more. */
  async list(path: string, query: Query, limit: number): Promise<{ items: Item[]; more: boolean }> {
    const items: Item[] = []
    let iterator: string | undefined
    for (;;) {
      const page = await this.page(path, { ...query, iterator, limit: Math.min(pageItems.most, limit - items.length) })
      items.push(...page.data)
      if (page.done || page.iterator === null) return { items, more: false }
      if (items.length >= limit) return { items, more: true }
      iterator = page.iterator
    }
  }

  /** Streams the bytes of a response, without a time limit; with a body, of a POST. */
  async *stream(path: string, query: Query, body?: unknown): AsyncGenerator<Uint8Array> {
    const method = body === undefined ? 'GET' : 'POST'
    const { response, stopWaiting } = await this.#send(method, path, { query, body })
    stopWaiting()
    if (response.body === null) return
    try {
      for await (const chunk of response.body) yield chunk as Uint8Array
    } catch (error) {
      const message = `The server at ${this.url} closed the connection in the middle of its response.`
      throw new CommandError(message, exitCode.unavailable, { cause: error })
    }
  }

  protected async ask(method: Method, path: string, call: Call): Promise<Item> {
    const { response, stopWaiting } = await this.#send(method, path, call)
    const text = await response.text().catch((error: unknown) => {
      throw this.#unreachable(error)
    })
    stopWaiting()
    if (text === '') return {}
    try {
      return parseExactly(text) as Item
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error
      throw new CommandError(`The response of ${this.url} is not JSON. Is it a Sluice server?`, exitCode.failed)
    }
  }

  async #send(method: Method, path: string, call: Call): Promise<{ response: Response; stopWaiting: () => void }> {
    const { key, clock, version } = this.deps
    const abort = new AbortController()
    const stopWaiting = clock.after(answerMs, () => abort.abort())
    const headers: Record<string, string> = {
      ...call.headers,
      accept: 'application/json',
      'user-agent': `sluice-cli/${version}`,
    }
    if (key !== undefined) headers.authorization = `Bearer ${key}`
    if (call.body !== undefined) headers['content-type'] = call.contentType ?? 'application/json'
    let response: Response
    try {
      response = await fetch(`${this.url}${apiRoot}${path}${queryText(call.query)}`, {
        method,
        headers,
        body: bodyOf(call.body),
        signal: abort.signal,
      })
    } catch (error) {
      stopWaiting()
      throw this.#unreachable(error)
    }
    if (response.ok) return { response, stopWaiting }
    const text = await response.text().catch(() => '')
    stopWaiting()
    throw await this.#problem(method, path, response, text)
  }

  #unreachable(error: unknown): CommandError {
    const cause = (error as { cause?: NodeJS.ErrnoException }).cause
    const reason = cause?.code === 'ECONNREFUSED' ? 'connection refused' : (cause?.code ?? 'no response')
    const { option } = this.deps
    const hint =
      option === undefined
        ? 'Is it running (sluice serve), and is --url or SLUICE_URL right?'
        : `Is it running, and is ${option} right?`
    return new CommandError(`Cannot reach the server at ${this.url}: ${reason}. ${hint}`, exitCode.unavailable, {
      cause: error,
    })
  }

  async #problem(method: Method, path: string, response: Response, text: string): Promise<ApiProblem> {
    const { status } = response
    const problem = readProblem(text)
    if (problem === undefined) {
      const sentence = `${this.url} answers ${method} ${path} with ${status}. Is it a Sluice server?`
      return new ApiProblem(sentence, status, undefined, response.headers.get('retry-after'))
    }
    const { detail, code } = problem
    if (status === 401) {
      const given = this.deps.key !== undefined
      const hint = given ? `Is --key or ${keyVariable} right?` : `Give one with --key or ${keyVariable}.`
      return new ApiProblem(`${detail} ${hint}`, status, code)
    }
    if (status === 405 || (status === 404 && /^There is no route /.test(detail))) {
      const message = `The server does not know ${method} ${path}. It may be older than this program.`
      return new ApiProblem(message, status, code)
    }
    if (status === 404) return new ApiProblem(`${detail}${await this.#suggestion(path)}`, status, code)
    const wait = response.headers.get('retry-after')
    return new ApiProblem(wait === null ? detail : `${detail} Try again in ${wait} s.`, status, code, wait)
  }

  /** The application that was meant, or how to create it, when the one in the path does not exist. */
  async #suggestion(path: string): Promise<string> {
    const [, ref = ''] = /^\/app\/([^/]+)/.exec(path) ?? []
    if (ref === '' || this.deps.suggests === false) return ''
    // The list only feeds the hint, so its errors are ignored: the original error is reported either way.
    const known = await this.list('/app', {}, pageItems.most).catch(() => undefined)
    if (known === undefined) return ''
    const names = known.items.flatMap(({ id, uid }) => [id, uid]).filter((name) => typeof name === 'string')
    const asked = decodeURIComponent(ref)
    if (names.includes(asked)) return ''
    const [called, other] = known.items.filter(({ name }) => name === asked)
    if (called !== undefined && other === undefined)
      return ` Its name is no uid; did you mean ${called.uid ?? called.id}?`
    const meant = nearest(asked, names)
    if (meant !== undefined) return ` Did you mean ${meant}?`
    return /^(?!app_)[\w.-]+$/.test(asked) ? ` Create it: sluice app create NAME --uid ${asked}` : ''
  }
}

/** Attempts of one request. With the waits between them, a server may be away for about two minutes. */
const attempts = 8
const firstWaitMs = 1000
const longestWaitMs = 60_000

/** A client for a long job: it keeps a pace, and asks again when the server is overloaded or away for a moment. */
export class PatientClient extends Client {
  readonly #gapMs: number
  #nextAt: SteadyMs

  /** In a long job, an object that does not exist is nothing special, so it has no suggestions. */
  constructor(deps: ClientDeps, perSecond: number) {
    super({ ...deps, suggests: false })
    this.#gapMs = 1000 / perSecond
    this.#nextAt = deps.clock.steady()
  }

  /** An item, or undefined when there is none. */
  async find(path: string): Promise<Item | undefined> {
    return this.get(path).catch((error: unknown) => {
      if (error instanceof ApiProblem && error.status === 404) return undefined
      throw error
    })
  }

  /** All items of a list, page by page. */
  async *all(path: string, query: Query = {}): AsyncGenerator<Item> {
    let iterator: string | undefined
    for (;;) {
      const page = await this.page(path, { ...query, limit: pageItems.most, iterator })
      if (!isPage(page)) throw new CommandError(`${this.url} answers ${path} with no list.`, exitCode.failed)
      yield* page.data
      if (page.done || page.iterator == null) return
      if (page.iterator === iterator) {
        throw new CommandError(`${this.url} answers ${path} with the same page again and again.`, exitCode.failed)
      }
      iterator = page.iterator
    }
  }

  protected override async ask(method: Method, path: string, call: Call): Promise<Item> {
    for (let attempt = 1; ; attempt++) {
      await this.#pace()
      try {
        return await super.ask(method, path, call)
      } catch (error) {
        if (!(error instanceof CommandError) || error.exitCode !== exitCode.unavailable || attempt >= attempts)
          throw error
        const askedMs = error instanceof ApiProblem ? (error.retryAfterMs ?? 0) : 0
        const waitMs = Math.min(longestWaitMs, Math.max(askedMs, firstWaitMs * 2 ** (attempt - 1)))
        await pause(this.deps.clock, waitMs)
      }
    }
  }

  async #pace(): Promise<void> {
    const { clock } = this.deps
    const now = clock.steady()
    const waitMs = this.#nextAt - now
    this.#nextAt = Math.max(now, this.#nextAt) + this.#gapMs
    if (waitMs > 0) await pause(clock, waitMs)
  }
}

/** Whether an answer of a server that may be any is a page of objects. */
function isPage(page: unknown): boolean {
  const data = (page as { readonly data?: unknown } | null)?.data
  return Array.isArray(data) && data.every((item) => typeof item === 'object' && item !== null)
}

/** Joins the parts to a path, each escaped. Throws CommandError for a part that would name another path. */
export function pathOf(...parts: readonly string[]): string {
  const folded = parts.find((part) => !isPathStep(part))
  if (folded !== undefined) {
    const message = `${JSON.stringify(folded)} names nothing: in a URL it stands for another path. Give the id instead.`
    throw new CommandError(message, exitCode.misused)
  }
  return parts.map((part) => `/${encodeURIComponent(part)}`).join('')
}

function exitCodeOf(status: number): number {
  if (status === 400 || status === 413 || status === 415 || status === 422) return exitCode.misused
  if (status === 401 || status === 403) return exitCode.denied
  if (status === 404) return exitCode.notFound
  if (status === 409) return exitCode.conflict
  return status === 429 || status === 502 || status === 503 || status === 504 ? exitCode.unavailable : exitCode.failed
}

/** The detail of an error's body; undefined when the text is something else. */
function readProblem(text: string): { detail: string; code: string } | undefined {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
  const { detail, code } = (parsed ?? {}) as { detail?: unknown; code?: unknown }
  if (typeof code !== 'string') return undefined
  if (!Array.isArray(detail)) return { detail: String(detail), code }
  const lines = (detail as { loc: (string | number)[]; msg: string }[]).map(
    ({ loc, msg }) => `  - ${loc.slice(1).join('.') || loc.join('.')}: ${msg}`,
  )
  return { detail: `Invalid request:\n${lines.join('\n')}`, code }
}

function queryText(query: Query = {}): string {
  const params = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) params.append(name, Array.isArray(value) ? value.join(',') : String(value))
  }
  const text = params.toString()
  return text === '' ? '' : `?${text}`
}

function bodyOf(body: unknown): string | Uint8Array<ArrayBuffer> | null {
  if (body === undefined) return null
  return body instanceof Uint8Array ? new Uint8Array(body) : JSON.stringify(body)
}
