import { Readable } from 'node:stream'
import type { AttemptSummary } from '../../domain/delivery.ts'
import type { Store } from '../../store/store.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import type { RecentAttempt, RecentAttempts } from './meter.ts'

/** Bytes that wait for a reader before it gets only the newest state. */
const bufferBytes = 16 * 1024
/** One event as bytes, with its number: a reader gets them in this order. */
export interface Frame {
  readonly n: number
  readonly text: string
}

/** Attempts that wait for a slow reader; the oldest go first. */
const mostWaiting = 50

/**
 * Server-sent events for one reader. A reader that is slow gets the newest state of each kind and the newest attempts when
 * it reads again: frames replace each other while they wait, so the memory of a stream is bounded.
 */
export class LiveStream extends Readable {
  /** The newest frame of each kind. */
  readonly #newest = new Map<string, Frame>()
  #attempts: Frame[] = []
  #wantsMore = false
  #isOver = false

  constructor(onEnd: () => void) {
    super({ highWaterMark: bufferBytes })
    this.once('close', onEnd)
  }

  /** Shows a state, in place of an earlier one of the same kind that was not sent yet. */
  show(kind: string, frame: Frame): void {
    this.#newest.set(kind, frame)
    this.#flush()
  }

  /** Adds an attempt. */
  add(frame: Frame): void {
    this.#attempts.push(frame)
    if (this.#attempts.length > mostWaiting) this.#attempts.shift()
    this.#flush()
  }

  /** Ends the stream behind the frames that were sent. */
  finish(): void {
    if (this.#isOver || this.destroyed) return
    this.#isOver = true
    this.push(null)
  }

  override _read(): void {
    this.#wantsMore = true
    this.#flush()
  }

  #flush(): void {
    if (!this.#wantsMore || this.#isOver || this.destroyed) return
    if (this.#newest.size === 0 && this.#attempts.length === 0) return
    const frames = [...this.#newest.values(), ...this.#attempts].sort((a, b) => a.n - b.n)
    this.#newest.clear()
    this.#attempts = []
    // Asked again by `_read` once the reader has taken it.
    this.#wantsMore = false
    this.push(frames.map(({ text }) => text).join(''))
  }
}

/** Attempts read from the store at once. */
const readAtOnce = 20
/** Attempts of other processes are looked for among messages of this age. */
const otherAttemptsMs = 10 * 60_000
/** An attempt is recorded when it ends: attempts that began this long before the newest one may still come. */
const lateMs = 30_000
const rememberedAttempts = 1000

/** An attempt with the names of its parts. */
export interface NamedAttempt extends RecentAttempt {
  readonly appId: string
  readonly endpointId: string
  readonly endpointUid: string | null
  readonly msgId: string
  readonly eventType: string
}

/** Makes a filter that lets each attempt pass once. */
function unseen(): (attempt: { readonly id: string }) => boolean {
  const ids = new Set<string>()
  return ({ id }) => {
    if (ids.has(id)) return false
    ids.add(id)
    if (ids.size > rememberedAttempts) ids.delete(ids.values().next().value as string)
    return true
  }
}

/**
 * Makes the feed of the attempts of all applications, a sample when there are too many. Each call answers the attempts since
 * the last one at these applications, oldest first; null stands for all.
 */
export function attemptFeed(store: Store, recent: RecentAttempts) {
  const isNew = unseen()
  return async (apps: ReadonlySet<number | null>) => {
    const found: Unnamed[] = []
    let total = 0
    for (const app of apps) {
      const { attempts, of } = recent.take(app)
      if (app === null) total = of
      found.push(...attempts)
    }
    // Workers on other machines record their attempts, too.
    if (store.traits.isShared) {
      found.push(...(await store.recentAttempts(otherAttemptsMs, readAtOnce)).map(unnamedOf))
    }
    const attempts = await named(store, found.filter(isNew))
    return { attempts, of: Math.max(total, attempts.length) }
  }
}

/**
 * Makes the feed of the attempts at one endpoint, whichever process makes them. Each call answers the attempts since the last
 * one, oldest first.
 */
export function endpointFeed(store: Store, endpoint: number, now: number): () => Promise<NamedAttempt[]> {
  const isNew = unseen()
  let newestAt = now
  return async () => {
    const from = newestAt - lateMs
    const range = { from, until: Number.MAX_SAFE_INTEGER, after: null, order: 'descending', limit: readAtOnce } as const
    const listed = await store.listAttempts(endpoint, range)
    newestAt = Math.max(newestAt, listed[0]?.at ?? 0)
    return named(store, listed.filter(isNew).map(unnamedOf))
  }
}

type Unnamed = Omit<RecentAttempt, 'app'>

function unnamedOf(attempt: Omit<AttemptSummary, 'bytes' | 'timings' | 'trigger'>): Unnamed {
  const { id, endpoint, message, n, at, durationMs, status, code, error, nextAt } = attempt
  const outcome = code === 'delivered' ? 'delivered' : nextAt === null ? 'dead' : 'retry'
  return { id, endpoint, message, n, at, durationMs, status, code, error, outcome }
}

/** Adds names. Attempts of messages, endpoints or applications that are gone are left out. */
async function named(store: Store, attempts: readonly Unnamed[]): Promise<NamedAttempt[]> {
  if (attempts.length === 0) return []
  const distinct = (keys: number[]) => [...new Set(keys)]
  const messages = await store.loadSummaries(distinct(attempts.map(({ message }) => message)))
  const endpoints = await store.loadEndpoints(distinct(attempts.map(({ endpoint }) => endpoint)))
  const apps = await store.applicationRefs(distinct(endpoints.map(({ app }) => app)))
  const messageOf = new Map(messages.map((each) => [each.key, each]))
  const endpointOf = new Map(endpoints.map((each): [number, Endpoint] => [each.key, each]))
  return attempts
    .flatMap((attempt) => {
      const message = messageOf.get(attempt.message)
      const endpoint = endpointOf.get(attempt.endpoint)
      const app = endpoint && apps.get(endpoint.app)
      if (message === undefined || endpoint === undefined || app === undefined) return []
      const names = { appId: app.id, endpointId: endpoint.id, endpointUid: endpoint.uid, msgId: message.id }
      return [{ ...attempt, ...names, app: app.key, eventType: message.eventType }]
    })
    .sort((a, b) => a.at - b.at)
}
