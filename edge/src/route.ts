import { openVerifier, type SignatureHeaders, type SignatureProfile, type Verifier } from '@sluice/receiver'
import { AppError } from '../../src/domain/app-error.ts'
import { allAtOnce } from '../../src/domain/turns.ts'
import type { Answer, Arrival, Judgement } from '../../src/sources/arrival.ts'
import { KeySets } from '../../src/sources/key-sets.ts'
import { isProviderName, providers } from '../../src/sources/providers.ts'
import type { Settings } from '../../src/sources/settings.ts'
import { openVerifier as openSourceVerifier } from '../../src/sources/verifier.ts'
import { maxStoredBody, readFields } from './fields.ts'
import { fetchKeys } from './keys.ts'
import type { DeliveryLedger } from './ledger.ts'
import type { Outbox } from './outbox.ts'

/** The bindings of the Worker. Routes and secrets are variables with a prefix: `ROUTE_orders`, `SECRET_orders`. */
export interface Env {
  readonly LEDGER: DurableObjectNamespace<DeliveryLedger>
  readonly OUTBOX: DurableObjectNamespace<Outbox>
  /** Only for routes with `dedupe = "kv"`. */
  readonly DELIVERED?: KVNamespace
  /** Further relays, one entry each: the name, and the fields with `secret` as JSON. */
  readonly ROUTES?: KVNamespace
  /** The bearer token of the routes below `/-/`; without it they do not exist. */
  readonly EDGE_TOKEN?: string
}

interface Common {
  readonly name: string
  readonly to: string
  readonly maxBodyBytes: number
  readonly timeoutMs: number
  readonly shards: number
}

/** The bounds of requests that the edge stores. */
export interface Storing {
  readonly retryForMs: number
  readonly maxStored: number
  readonly maxStoredBytes: number
  readonly maxFailures: number
  readonly keepFailuresMs: number
}

export interface RelayRoute extends Common {
  readonly mode: 'relay'
  readonly verifier: Verifier
  readonly dedupe: 'object' | 'kv' | 'none'
  readonly rememberMs: number
  readonly maxIds: number
}

export interface CoalesceRoute extends Common, Storing {
  readonly mode: 'coalesce'
  readonly verifier: Verifier
  readonly type: string | undefined
  readonly key: string
  readonly windowMs: number
}

export interface IngressRoute extends Common, Storing {
  readonly mode: 'ingress'
  readonly judge: (arrival: Arrival, nowMs: number) => Promise<Judgement>
  /** The answer to a stored event, if the provider expects another one than 202. */
  readonly accepted: Answer | undefined
}

export type Route = RelayRoute | CoalesceRoute | IngressRoute

/** The routes of a Worker by name, and the problems of those that cannot be used. */
export interface Routes {
  readonly byName: ReadonlyMap<string, Route>
  readonly problems: ReadonlyMap<string, string>
}

/** A shorter bearer token opens nothing. */
export const leastToken = 16
export const namePattern = /^[a-z0-9_]{1,63}$/
const read = new WeakMap<object, Routes>()

/** The routes, read once per isolate. A wrong route is a problem of its own and stops no other. */
export function routesOf(env: Env): Routes {
  const known = read.get(env)
  if (known !== undefined) return known
  const byName = new Map<string, Route>()
  const problems = new Map<string, string>()
  for (const [variable, value] of Object.entries(env)) {
    if (!variable.startsWith('ROUTE_')) continue
    const name = variable.slice('ROUTE_'.length)
    try {
      if (!namePattern.test(name)) throw new RangeError('the name must be lower-case letters, digits and underscores')
      byName.set(name, readRoute(name, env, value))
    } catch (error) {
      const problem = `${variable}: ${problemOf(error)}`
      problems.set(name, problem)
      console.error(JSON.stringify({ event: 'misconfigured', route: name, problem }))
    }
  }
  if (env.EDGE_TOKEN !== undefined && env.EDGE_TOKEN.length < leastToken) {
    problems.set('EDGE_TOKEN', `EDGE_TOKEN: must have ${leastToken} characters or more`)
  }
  const routes = { byName, problems }
  read.set(env, routes)
  return routes
}

export function problemOf(error: unknown): string {
  if (error instanceof AppError && error.fields.length > 0) {
    return error.fields.map(({ at, message }) => `${at.slice(1).join('.')} ${message}`).join('; ')
  }
  return error instanceof Error ? error.message : String(error)
}

export function readRoute(name: string, env: Env, variable: unknown, secrets = secretsOf(env, name)): Route {
  const values = readFields(typeof variable === 'string' ? JSON.parse(variable) : variable)
  const field = <T>(of: string) => values[of] as T
  const ms = (of: string) => field<number>(of) * 1000
  const mode = field<Route['mode']>('mode')
  const common: Common = {
    name,
    to: checkedTarget(field('to'), field('allowHttp')),
    maxBodyBytes: mode === 'relay' ? field('maxBodyBytes') : Math.min(field('maxBodyBytes'), maxStoredBody),
    timeoutMs: ms('timeoutSeconds'),
    shards: field('shards'),
  }
  if (mode === 'relay') {
    const dedupe = field<RelayRoute['dedupe']>('dedupe')
    if (dedupe === 'kv' && env.DELIVERED === undefined) {
      throw new RangeError('field dedupe is kv, but the Worker has no KV namespace DELIVERED')
    }
    const verifier = verifierOf(name, values, secrets)
    return { ...common, mode, verifier, dedupe, rememberMs: ms('rememberSeconds'), maxIds: field('maxIds') }
  }
  const storing: Storing = {
    retryForMs: ms('retryForSeconds'),
    maxStored: field('maxStored'),
    maxStoredBytes: field('maxStoredBytes'),
    maxFailures: field('maxFailures'),
    keepFailuresMs: ms('keepFailuresSeconds'),
  }
  if (mode === 'coalesce') {
    const windowMs = ms('windowSeconds')
    const verifier = verifierOf(name, values, secrets)
    return { ...common, ...storing, mode, verifier, type: field('type'), key: field('key'), windowMs }
  }
  if (new URL(common.to).search !== '')
    throw new RangeError('field to must have no query: that of the request follows it')
  return { ...common, ...storing, mode, ...sourceOf(field('provider'), field<Settings>('settings') ?? {}, secrets) }
}

/** The judge of the requests of a provider. */
function sourceOf(
  name: string,
  settings: Settings,
  secrets: readonly string[],
): Pick<IngressRoute, 'judge' | 'accepted'> {
  if (!isProviderName(name)) throw new RangeError(`field provider must be one of ${Object.keys(providers).join(', ')}`)
  const source = { provider: name, settings, secrets: secrets.map((secret) => ({ secret, expiresAt: null })) }
  // Cloudflare caches published keys. A cache in memory would let one request wait for the fetch of another.
  const open = () => openSourceVerifier(source, { keySets: new KeySets(fetchKeys), compute: allAtOnce })
  const verifier = open()
  const judge: IngressRoute['judge'] = (arrival, now) => (name === 'jwt' ? open() : verifier).judge(arrival, now)
  return { judge, accepted: providers[name].accepted }
}

/** The secrets of a route: several during a rotation, one per line. A secret that a provider takes may contain spaces. */
function secretsOf(env: Env, name: string): string[] {
  return secretsIn((env as unknown as Readonly<Record<string, unknown>>)[`SECRET_${name}`])
}

export function secretsIn(value: unknown): string[] {
  return typeof value === 'string' ? value.split(/\r?\n/).filter((secret) => secret.trim() !== '') : []
}

function verifierOf(name: string, values: Readonly<Record<string, unknown>>, secret: readonly string[]): Verifier {
  if (secret.length === 0) throw new RangeError(`its secret is missing; set it with wrangler secret put SECRET_${name}`)
  return openVerifier({
    secret,
    profile: values.profile as SignatureProfile,
    headers: values.signatureHeaders as SignatureHeaders | undefined,
    toleranceSeconds: values.toleranceSeconds as number,
  })
}

/** The URL as it is fetched. Nothing of a request becomes a part of it but an ingress route's query. */
function checkedTarget(to: string, allowHttp: boolean): string {
  const url = new URL(to)
  if (url.protocol !== 'https:' && !allowHttp)
    throw new RangeError('field to must begin with https://, unless allowHttp is true')
  if (url.username !== '' || url.password !== '' || url.hash !== '') {
    throw new RangeError('field to must have no user, password or fragment')
  }
  return url.href
}
