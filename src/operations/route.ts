import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import type { Static, TSchema } from 'typebox'
import { apiRoot, type ingestRoot } from '../domain/api.ts'
import type { Attempt, Message } from '../domain/delivery.ts'
import type { Application } from '../features/applications/noun.ts'
import type { Endpoint } from '../features/endpoints/rules.ts'
import type { NounThings } from '../features/nouns.ts'
import type { Task } from '../features/tasks/rules.ts'
import type { Caller, Need } from './access.ts'
import type { ServiceDeps, Services } from './services.ts'
import type { IgnoredFields } from './unknown-names.ts'

/** The parts of a path that name a stored thing. Each is looked up once, before the handler runs. */
export interface Things extends NounThings {
  readonly app: Application
  readonly endpoint: Endpoint
  readonly message: Message
  readonly attempt: Attempt
  readonly task: Task
  readonly erasure: Task
}

/**
 * How the names in a path are looked up. `each`: every thing must exist, or the answer is 404. `upsert`: the last one
 * may be new, and is undefined then. `none`: the handler works with the names alone.
 */
type Lookup = 'each' | 'upsert' | 'none'

/** A body of any content type, taken as bytes. */
export const anyBytes = 'bytes'

/** A body or an answer of one JSON value per line. */
export interface JsonLines {
  readonly lines: TSchema
  /** Whether the answer is a stream of server-sent events, whose data these values are. It never ends by itself. */
  readonly events?: true
}

type BodySchema = TSchema | JsonLines | typeof anyBytes

/**
 * How a JSON body is read. `value`: parsed and checked. `bytes`: not at all; the handler gets the bytes. `split`: the
 * bytes of `payload` stay as they are, and the rest is parsed and checked.
 */
type BodyReading = 'value' | 'bytes' | 'split'

/**
 * `answer`: the transport keeps the answer and gives it again. `publish`: the handler stores the key with its messages, because a
 * publish shares its transaction with others.
 */
type Idempotency = 'answer' | 'publish'

/** The answers of an operation when it succeeds, by status; null stands for no body. */
type Answers = Readonly<Record<number, TSchema | JsonLines | null>>

/** A value that fits a schema, for writing an answer: nothing in it needs to be mutable. */
export type Out<T extends TSchema> = ReadonlyDeep<Static<T>>

type ReadonlyDeep<T> = T extends readonly (infer Item)[]
  ? readonly ReadonlyDeep<Item>[]
  : T extends object
    ? { readonly [Field in keyof T]: ReadonlyDeep<T[Field]> }
    : T

/** An answer whose status is not the first one of its operation, or that has headers of its own. */
export class Reply<Status extends number, Value> {
  readonly status: Status
  readonly value: Value
  readonly headers: Readonly<Record<string, string>>

  constructor(status: Status, value: Value, headers: Readonly<Record<string, string>> = {}) {
    this.status = status
    this.value = value
    this.headers = headers
  }
}

/** JSON may also be answered as bytes or a stream of them, so that payloads go through no serialiser. No body: any value. */
type ValueOf<Answer> = Answer extends JsonLines
  ? Readable
  : Answer extends TSchema
    ? Out<Answer> | Buffer | Readable
    : unknown

type Handled<A extends Answers> =
  | ValueOf<A[keyof A]>
  | { [Status in keyof A & number]: Reply<Status, ValueOf<A[Status]>> }[keyof A & number]

type NamesIn<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | NamesIn<`/${Rest}`>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never

type LastOf<Path extends string> = Path extends `${string}/${infer Rest}`
  ? LastOf<Rest>
  : Path extends `:${infer Name}`
    ? Name
    : never

/** Distributes over the paths of an operation that exists in two places. */
type LookedUp<Path extends string, L extends Lookup> = L extends 'none'
  ? unknown
  : Path extends string
    ? {
        readonly [Name in NamesIn<Path> & keyof Things]: L extends 'upsert'
          ? Name extends LastOf<Path>
            ? Things[Name] | undefined
            : Things[Name]
          : Things[Name]
      }
    : never

type QueryOf<Query> = Query extends TSchema ? Static<Query> : Readonly<Record<string, never>>

type BodyOf<Body, R extends BodyReading> = Body extends JsonLines | typeof anyBytes
  ? Buffer
  : Body extends TSchema
    ? R extends 'bytes'
      ? Buffer
      : R extends 'split'
        ? SplitBody<Static<Body>>
        : Static<Body>
    : undefined

/** A body whose payload stays the bytes it is. */
type SplitBody<Whole> = {
  readonly head: Omit<Whole, 'payload'>
  readonly payload: 'payload' extends RequiredIn<Whole> ? Buffer : Buffer | undefined
}

type RequiredIn<T> = { [Field in keyof T]-?: object extends Pick<T, Field> ? never : Field }[keyof T]

/**
 * A request as handlers see it: one of Fastify's, or one that a program makes in its own process. Handlers know no more of
 * the transport.
 */
export interface Incoming {
  readonly method: string
  readonly url: string
  readonly protocol: string
  readonly host: string
  readonly headers: IncomingHttpHeaders
  readonly params: unknown
  readonly query: unknown
  /** The bytes that came, as a Buffer, if any; then the value that was read from them. */
  body: unknown
  /** The caller; null on routes that ask for no key. */
  readonly caller: Caller | null
  /** The address of the client; undefined when there is none. */
  readonly address: string | undefined
  /** The path of the route. */
  readonly routeOptions: { readonly url?: string | undefined }
}

/** A request whose body is not read yet. */
export type Unread = Pick<Incoming, 'method' | 'url' | 'protocol' | 'host' | 'headers' | 'params' | 'address'>

/** One request, checked. */
type Call<Path extends string, Query, Body, L extends Lookup, R extends BodyReading> = {
  readonly params: Readonly<Record<NamesIn<Path>, string>>
  readonly query: QueryOf<Query>
  readonly body: BodyOf<Body, R>
  /** The fields that the answer names as ignored. A handler that reads bytes itself adds those of its body. */
  readonly ignored: IgnoredFields
  readonly request: Incoming
} & LookedUp<Path, L>

/** Sluice's own API; the part of Svix's that takes webhooks in; and the URLs of sources. */
export type Root = typeof apiRoot | typeof ingestRoot | ''

/** An operation of the API. The guard, the audit log, the checks, the reference and the registration follow from it. */
interface Definition<
  Path extends string,
  Query extends TSchema | undefined,
  Body extends BodySchema | undefined,
  A extends Answers,
  L extends Lookup,
  R extends BodyReading,
> {
  /** The beginning of its URL; `/api/v1` by default. */
  readonly root?: Root | undefined
  /** As in Svix's API where it has the operation, so that generated clients have the same names. */
  readonly id: string
  /** A few words in the imperative. */
  readonly summary: string
  /** Details beyond the summary; Markdown is not rendered. */
  readonly description?: string
  readonly query?: Query
  readonly body?: Body
  /** Whether the body must be there although it requires no field: a missing filter would mean everything. */
  readonly needsBody?: boolean
  readonly reading?: R
  /** The longest body, where that is not the server's own limit. */
  readonly bodyLimit?: (deps: ServiceDeps) => number
  /** Refuses a request of an open route before its body is read, by throwing. */
  readonly admit?: (request: Unread, services: Services) => Promise<void>
  readonly answers: A
  /** Whether the answer holds a secret: it is then never kept for an Idempotency-Key. */
  readonly answersSecret?: boolean
  /** The part that lets a POST happen once per Idempotency-Key; `answer` by default. */
  readonly idempotency?: Idempotency
  readonly lookup?: L
  readonly handle: (call: Call<Path, Query, Body, L, R>, services: Services) => Handled<A> | Promise<Handled<A>>
}

/** A definition whose types have done their work. */
export interface Route extends Omit<Definition<string, TSchema, BodySchema, Answers, Lookup, BodyReading>, 'handle'> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Below `root`. */
  readonly path: string
  /** The permission that the caller needs; `open` asks for no key. */
  readonly need: Need | 'open'
  readonly handle: (call: never, services: Services) => unknown
}

/** The URL of a route. */
export function urlOf({ root = apiRoot, path }: Pick<Route, 'root' | 'path'>): string {
  return root + path
}

/** The same routes under another root. */
export function under<R extends Route>(root: Root, routes: readonly R[]): R[] {
  return routes.map((route) => ({ ...route, root }))
}

/** Whether the answer of a route is kept for an Idempotency-Key. */
export function keepsAnswer({ method, need, answersSecret = false, idempotency = 'answer' }: Route): boolean {
  return method === 'POST' && need !== 'open' && !answersSecret && idempotency === 'answer'
}

type MethodIn<At> = At extends `${infer Method extends Route['method']} ${string}` ? Method : never
type PathIn<At> = At extends `${string} ${infer Path}` ? Path : never

/** A route that keeps the types of its method, path and answers, for callers of `request()`. */
export interface TypedRoute<At extends string, A extends Answers> extends Route {
  readonly method: MethodIn<At>
  readonly path: PathIn<At>
  readonly answers: A
}

/** Declares one operation by its method and path, such as `GET /app/:app`, and the permission that its caller needs. */
export function route<
  const At extends `${Route['method']} /${string}`,
  const A extends Answers,
  Query extends TSchema | undefined = undefined,
  Body extends BodySchema | undefined = undefined,
  const L extends Lookup = 'each',
  const R extends BodyReading = 'value',
>(at: At, need: Route['need'], definition: Definition<PathIn<At>, Query, Body, A, L, R>): TypedRoute<At, A> {
  const [method, path] = at.split(' ')
  return { method, path, need, ...definition } as unknown as TypedRoute<At, A>
}

/** Whether the body may be left out; it is then read as `{}`. True where no field of it is required. A change without a body is a mistake. */
export function isBodyOptional({ method, body, needsBody = false }: Route): boolean {
  if (needsBody || method === 'PATCH' || typeof body !== 'object' || 'lines' in body) return false
  const { required = [] } = body as { required?: string[] }
  return required.length === 0
}

/** One kind of thing in the API, with all its operations. */
export interface Noun {
  /** The heading in the reference. */
  readonly tag: string
  /** One sentence under that heading; absent where another feature has it, to which these routes belong. */
  readonly description?: string
  /**
   * The schemas that have a name in the reference: Svix's where it has the same shape. Those of requests end in `In`, `Put`,
   * `Patch` or `Query`, those of answers in `Out`; `toXOut` makes the answer of a thing.
   */
  readonly schemas?: Readonly<Record<string, TSchema>>
  readonly routes: readonly Route[]
}
