import { timingSafeEqual } from 'node:crypto'
import { AppError } from '../domain/app-error.ts'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import { decodeKey } from '../domain/ids.ts'
import { sourceKeyOf } from '../domain/source.ts'
import { digest, type Envelope } from '../intake/publication.ts'
import type { Publisher } from '../intake/publisher.ts'
import type { Answer, Arrival, Judgement } from '../sources/arrival.ts'
import type { KeySets } from '../sources/key-sets.ts'
import { isProviderName, type ProviderName, providers } from '../sources/providers.ts'
import { completed } from '../sources/settings.ts'
import { openVerifier, type Verifier } from '../sources/verifier.ts'
import type { Once } from '../store/publishing.ts'
import type { ArrivingSource } from '../store/sources.ts'
import type { Store } from '../store/store.ts'
import { ArrivalNotes } from './arrival-notes.ts'
import { arrivedHeaders } from './arrived-headers.ts'
import { FailureLimit, KeyedRate, networkOf } from './keyed-rate.ts'

/** The largest body of an arrival, whatever `bodyLimit` says: its hash is computed in one go. */
export const arrivalBytesLimit = 16 * 1024 * 1024

/** The result of an arrival, for metrics: `accepted`, `repeated`, `answered`, or the code of the refusal. */
export type OnArrival = (provider: ProviderName | 'unknown', result: string) => void

export interface ArrivalsParts {
  readonly store: Pick<Store, 'sourceAt' | 'noteArrivals'>
  readonly publisher: Publisher
  readonly clock: Clock
  readonly keySets: KeySets
  readonly limits: ArrivalLimits
  readonly onArrival?: OnArrival | undefined
  /** Called when the arrivals could not be noted in the store. */
  readonly onTrouble: (error: unknown) => void
}

/** Settings of the server, by their names. */
export interface ArrivalLimits {
  /** Refused arrivals that are kept of each source. */
  readonly refusedSamples: number
  /** Refused arrivals a minute from one address at one source; ten times as many from all addresses. */
  readonly refusedArrivals: number
  /** Accepted arrivals a second over all sources of one application; 0 for no limit. */
  readonly arrivalRatePerApp: number
}

/** A source that is ready to judge. */
interface OpenSource {
  readonly source: ArrivingSource
  readonly provider: ProviderName
  /** Undefined when its stored secrets do not open. */
  readonly verifier: Verifier | undefined
}

interface Known {
  readonly open: Promise<OpenSource | undefined>
  readonly until: SteadyMs
}

/** How long a source is believed to be as it was read: the longest time until a change of it works. */
const believedForMs = 1000
const remembered = 2048
/** How long an address that sent a genuine request is let through while others flood the source, and how many are. */
const trustedForMs = 3_600_000
const trustedLimit = 10_000
/** A refused body costs one token, and one more for each of these bytes. */
const bytesPerToken = 65_536
const burstSeconds = 10

/**
 * Takes the webhooks of other senders in. A request is looked at twice: `admit` before its body is read, `receive` with
 * the body. Refused requests leave a count and a sample behind, written once a second.
 */
export class Arrivals {
  readonly #parts: ArrivalsParts
  readonly #known = new Map<number, Known>()
  readonly #notes: ArrivalNotes
  readonly #unknown = new FailureLimit()
  readonly #ofAddress: KeyedRate
  readonly #ofSource: KeyedRate
  readonly #ofApp: KeyedRate | undefined
  /** Addresses by source and network, and until when they are trusted; the oldest first. */
  readonly #trusted = new Map<string, SteadyMs>()

  constructor(parts: ArrivalsParts) {
    this.#parts = parts
    const { refusedArrivals, arrivalRatePerApp } = parts.limits
    this.#notes = new ArrivalNotes(parts)
    const perMinute = Math.max(1, refusedArrivals)
    this.#ofAddress = new KeyedRate(perMinute, 60_000 / perMinute)
    this.#ofSource = new KeyedRate(10 * perMinute, 6000 / perMinute)
    if (arrivalRatePerApp > 0) {
      this.#ofApp = new KeyedRate(arrivalRatePerApp * burstSeconds, 1000 / arrivalRatePerApp)
    }
  }

  /**
   * Refuses a request before its body is read: AppError `not_found` for a source that does not exist or is disabled, and
   * `rate_limited` after too many refused ones.
   */
  async admit(ref: string, address: string): Promise<void> {
    const open = await this.#find(ref, address)
    const waitMs = this.#floodedMs(open.source, address)
    if (waitMs === 0) return
    this.#refused(open, 'rate_limited')
    const message = 'Too many requests to this source were refused (refusedArrivals).'
    throw new AppError('rate_limited', message, [], { retryAfterSeconds: Math.ceil(waitMs / 1000) })
  }

  /** Verifies a request and stores its event. Resolves with the answer once the event is durable; rejects with AppError. */
  async receive(ref: string, arrival: Arrival, address: string): Promise<Answer> {
    const open = await this.#find(ref, address)
    const judgement = await this.#judge(open, arrival)
    const { source, provider } = open
    switch (judgement.kind) {
      case 'unavailable':
        this.#refused(open, 'unavailable')
        throw new AppError('unavailable', judgement.reason, [], judgement)
      case 'refused':
        this.#refuse(open, arrival, address, judgement)
        throw judgement.code === 'wrong_method'
          ? new AppError('method_not_allowed', judgement.reason)
          : new AppError('not_verified', 'The request could not be verified.')
      case 'answer':
        this.#trust(source, address)
        this.#parts.onArrival?.(provider, 'answered')
        return judgement.answer
      case 'event':
        this.#trust(source, address)
        return this.#publish(open, arrival, judgement)
    }
  }

  /** The judgement of `receive` about a request. Nothing is stored. */
  async try(source: ArrivingSource, arrival: Arrival): Promise<Judgement> {
    return this.#judge(openSource(source, this.#parts.keySets), arrival)
  }

  /** Writes what is not noted yet. */
  close(): Promise<void> {
    return this.#notes.close()
  }

  #judge({ verifier }: OpenSource, arrival: Arrival): Promise<Judgement> {
    if (verifier !== undefined) return verifier.judge(arrival, this.#parts.clock.now())
    const reason = 'The stored secrets of the source cannot be opened.'
    return Promise.resolve({ kind: 'unavailable', reason, retryAfterSeconds: 60 })
  }

  async #publish(open: OpenSource, arrival: Arrival, event: Extract<Judgement, { kind: 'event' }>): Promise<Answer> {
    const { source, provider } = open
    const waitMs = this.#ofApp?.take(String(source.app), this.#parts.clock.steady()) ?? 0
    if (waitMs > 0) {
      this.#refused(open, 'rate_limited')
      const message = `Too many requests: the limit arrivalRatePerApp is ${this.#parts.limits.arrivalRatePerApp}.`
      throw new AppError('rate_limited', message, [], { retryAfterSeconds: Math.ceil(waitMs / 1000) })
    }
    const envelope: Envelope = {
      eventType: event.eventType,
      eventId: null,
      channels: [source.id],
      contentType: event.contentType,
      delayMs: 0,
      arrivedHeaders: arrivedHeaders(arrival.headers, source),
      arrival: onceOf(source, provider, event.eventId),
    }
    try {
      const { id, state } = await this.#parts.publisher.publish(source.appId, envelope, arrival.body)
      this.#notes.accepted(source.key)
      this.#parts.onArrival?.(provider, state)
      const { accepted } = providers[provider]
      const headers = { 'sluice-message-id': id }
      if (accepted !== undefined) return { ...accepted, headers: { ...accepted.headers, ...headers } }
      return { status: 202, headers: { ...headers, 'content-type': json }, body: JSON.stringify({ id }) }
    } catch (error) {
      this.#refused(open, error instanceof AppError ? error.code : 'internal')
      throw error
    }
  }

  /** The source that the path names; AppError `not_found` when there is none that takes requests there. */
  async #find(ref: string, address: string): Promise<OpenSource> {
    const now = this.#parts.clock.steady()
    const key = sourceKeyOf(ref)
    const open = key === undefined ? undefined : await this.#open(key, now)
    if (open !== undefined && isNamed(open, ref, this.#parts.clock.now()) && !open.source.disabled) return open
    this.#parts.onArrival?.('unknown', 'not_found')
    const waitMs = this.#unknown.note(address, now)
    if (waitMs > 0) {
      const message = 'Too many requests of this address named no source.'
      throw new AppError('rate_limited', message, [], { retryAfterSeconds: Math.ceil(waitMs / 1000) })
    }
    throw new AppError('not_found', 'There is no such source.')
  }

  #open(key: number, now: SteadyMs): Promise<OpenSource | undefined> {
    const known = this.#known.get(key)
    if (known !== undefined && known.until > now) return known.open
    const { store, keySets } = this.#parts
    const open = store.sourceAt(key).then((source) => source && openSource(source, keySets))
    this.#known.delete(key)
    this.#known.set(key, { open, until: now + believedForMs })
    if (this.#known.size > remembered) this.#known.delete(this.#known.keys().next().value as number)
    // A failure is not remembered. Its callers have it.
    return open.catch((error: unknown) => {
      if (this.#known.get(key)?.open === open) this.#known.delete(key)
      throw error
    })
  }

  /** How long an address has to wait before the source looks at a request of it; 0 for not at all. */
  #floodedMs({ key }: ArrivingSource, address: string): number {
    const now = this.#parts.clock.steady()
    const name = `${key} ${networkOf(address)}`
    const ofAddress = this.#ofAddress.waitMs(name, now)
    if (ofAddress > 0 || (this.#trusted.get(name) ?? 0) > now) return ofAddress
    return this.#ofSource.waitMs(String(key), now)
  }

  /** Lets an address through that sent a genuine request, while others flood the source. */
  #trust({ key }: ArrivingSource, address: string): void {
    const name = `${key} ${networkOf(address)}`
    this.#trusted.delete(name)
    this.#trusted.set(name, this.#parts.clock.steady() + trustedForMs)
    if (this.#trusted.size > trustedLimit) this.#trusted.delete(this.#trusted.keys().next().value as string)
  }

  #refuse(
    open: OpenSource,
    arrival: Arrival,
    address: string,
    { code, reason }: Extract<Judgement, { kind: 'refused' }>,
  ): void {
    const { source } = open
    const { key } = source
    const now = this.#parts.clock.steady()
    const tokens = 1 + Math.floor(arrival.body.byteLength / bytesPerToken)
    this.#ofAddress.charge(`${key} ${networkOf(address)}`, now, tokens)
    this.#ofSource.charge(String(key), now, tokens)
    this.#notes.refused(key, code, { source, reason, arrival, address })
    this.#parts.onArrival?.(open.provider, code)
  }

  #refused({ source, provider }: OpenSource, code: string): void {
    this.#notes.refused(source.key, code)
    this.#parts.onArrival?.(provider, code)
  }
}

const json = 'application/json; charset=utf-8'

function openSource(source: ArrivingSource, keySets: KeySets): OpenSource {
  const provider = isProviderName(source.provider) ? source.provider : 'none'
  if (source.damaged === true || provider !== source.provider) return { source, provider, verifier: undefined }
  const { settings, secrets } = source
  try {
    return { source, provider, verifier: openVerifier({ provider, settings, secrets }, { keySets }) }
  } catch (error) {
    // Stored by a version with other settings.
    if (error instanceof AppError) return { source, provider, verifier: undefined }
    throw error
  }
}

/**
 * Whether a path names the source: its id, or one of its tokens. A source that verifies nothing is named by its tokens
 * alone, because its id is no secret.
 */
function isNamed({ source, provider }: OpenSource, ref: string, now: number): boolean {
  if (decodeKey('src', ref) !== undefined) return ref === source.id && provider !== 'none'
  const [given, tokens] = [Buffer.from(ref), source.tokens]
  let isOne = false
  for (const { secret, expiresAt } of tokens) {
    const token = Buffer.from(secret)
    const isSame = token.length === given.length && timingSafeEqual(token, given)
    isOne = (isSame && (expiresAt === null || expiresAt > now)) || isOne
  }
  return isOne
}

/** Identifies the event at its source, for as long as its provider may send it again. */
function onceOf(source: ArrivingSource, provider: ProviderName, eventId: string | undefined): Once | null {
  const seconds = Number(completed(provider, source.settings).replayWindowSeconds)
  if (eventId === undefined || seconds === 0) return null
  return { hash: digest('arrival', String(source.key), eventId), fingerprint: '', ttlMs: seconds * 1000 }
}
