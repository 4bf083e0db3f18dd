import { timingSafeEqual } from 'node:crypto'
import { jsonType } from '../../domain/api.ts'
import { AppError } from '../../domain/app-error.ts'
import type { Clock, SteadyMs } from '../../domain/clock.ts'
import { decodeKey } from '../../domain/ids.ts'
import { Turns } from '../../domain/turns.ts'
import { digest, type Envelope } from '../../intake/publication.ts'
import type { Publisher } from '../../intake/publisher.ts'
import { ArrivalFloods, FailureLimit, KeyedRate, putLast } from '../../operations/caller-limits.ts'
import type {
  Answer,
  Arrival,
  ArrivalHead,
  Judgement,
  Refusal,
  SourceEvent,
  Unavailable,
} from '../../sources/arrival.ts'
import type { KeySets } from '../../sources/key-sets.ts'
import { isProviderName, type ProviderName, providers } from '../../sources/providers.ts'
import { completed } from '../../sources/settings.ts'
import { openVerifier, unreadable, type Verifier, type VerifierDeps } from '../../sources/verifier.ts'
import type { Once } from '../../store/publishing.ts'
import type { Store } from '../../store/store.ts'
import type { ArrivingSource } from '../sources/noun.ts'
import { sourceKeyOf } from '../sources/rules.ts'
import { ArrivalNotes, arrivedHeaders, type Refused } from './notes-service.ts'

/** The largest body of an arrival, whatever `bodyLimit` says. */
export const arrivalBytesLimit = 16 * 1024 * 1024

/** The result of an arrival, for metrics: `accepted`, `repeated`, `answered`, or the code of the refusal. */
export type OnArrival = (provider: ProviderName | 'unknown', result: string) => void

export interface ArrivalsDeps {
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
  readonly verifier: Verifier
}

/** How long a source is believed to be as it was read: the longest time until a change of it works. */
const believedForMs = 1000
const remembered = 2048
/** A refused body costs one token, and one more for each of these bytes. */
const bytesPerToken = 65_536
const burstSeconds = 10

/**
 * Takes the webhooks of other senders in. A request is looked at twice: `admit` before its body is read, `receive` with
 * the body. Refused requests leave a count and a sample behind, written once a second.
 */
export class Arrivals {
  readonly #deps: ArrivalsDeps
  readonly #verifying: VerifierDeps
  /** Only sources that exist, so that a flood of made-up names drives none of them out. */
  readonly #known = new Map<number, { readonly open: OpenSource; readonly until: SteadyMs }>()
  readonly #reading = new Map<number, Promise<OpenSource | undefined>>()
  readonly #notes: ArrivalNotes
  readonly #unknown = new FailureLimit()
  readonly #floods: ArrivalFloods
  readonly #ofApp: KeyedRate | undefined

  constructor(deps: ArrivalsDeps) {
    this.#deps = deps
    const { refusedArrivals, arrivalRatePerApp } = deps.limits
    const turns = Turns.by(deps.clock)
    this.#verifying = { keySets: deps.keySets, compute: (work) => turns.run(work) }
    this.#notes = new ArrivalNotes(deps)
    this.#floods = new ArrivalFloods(deps.clock, refusedArrivals)
    if (arrivalRatePerApp > 0) {
      this.#ofApp = new KeyedRate(arrivalRatePerApp * burstSeconds, 1000 / arrivalRatePerApp)
    }
  }

  /**
   * Refuses a request before its body is read: AppError `not_found` for a source that does not exist or is disabled,
   * `rate_limited` after too many refused ones or too many of the application, and `unavailable` while the source lacks the
   * keys to verify it.
   */
  async admit(ref: string, head: ArrivalHead, address: string): Promise<void> {
    const open = await this.#find(ref, address)
    const { key, app } = open.source
    const floodedMs = this.#floods.waitMs(key, address)
    if (floodedMs > 0) {
      throw this.#limited(open, 'Too many requests to this source were refused (refusedArrivals).', floodedMs)
    }
    const unready = await open.verifier.unready(head, this.#deps.clock.now())
    if (unready !== undefined) throw this.#unavailable(open, { ...head, body: unread }, address, unready)
    this.#refuseAboveRate(open, this.#ofApp?.waitMs(String(app), this.#deps.clock.steady()))
  }

  /** Verifies a request and stores its event. Resolves with the answer once the event is durable; rejects with AppError. */
  async receive(ref: string, arrival: Arrival, address: string): Promise<Answer> {
    const open = await this.#find(ref, address)
    const { source, provider, verifier } = open
    const judgement = await verifier.judge(arrival, this.#deps.clock.now())
    switch (judgement.kind) {
      case 'unavailable':
        throw this.#unavailable(open, arrival, address, judgement)
      case 'refused':
        throw this.#refuse(open, arrival, address, judgement)
      case 'answer':
        this.#floods.trust(source.key, address)
        this.#deps.onArrival?.(provider, 'answered')
        return judgement.answer
      case 'event':
        this.#floods.trust(source.key, address)
        return this.#publish(open, arrival, judgement)
    }
  }

  /** The judgement of `receive` about a request. Nothing is stored. */
  async try(source: ArrivingSource, arrival: Arrival): Promise<Judgement> {
    return openSource(source, this.#verifying).verifier.judge(arrival, this.#deps.clock.now())
  }

  /** Writes what is not noted yet. */
  close(): Promise<void> {
    return this.#notes.close()
  }

  async #publish(open: OpenSource, arrival: Arrival, event: SourceEvent): Promise<Answer> {
    const { source, provider } = open
    this.#refuseAboveRate(open, this.#ofApp?.take(String(source.app), this.#deps.clock.steady()))
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
      const { id, state } = await this.#deps.publisher.publish(source.appId, envelope, arrival.body)
      this.#notes.accepted(source.key)
      this.#deps.onArrival?.(provider, state)
      const { accepted } = providers[provider]
      const headers = { 'sluice-message-id': id }
      if (accepted !== undefined) return { ...accepted, headers: { ...accepted.headers, ...headers } }
      return { status: 202, headers: { ...headers, 'content-type': jsonType }, body: JSON.stringify({ id }) }
    } catch (error) {
      this.#count(open, error instanceof AppError ? error.code : 'internal')
      throw error
    }
  }

  /** The source that the path names; AppError `not_found` when there is none that takes requests there. */
  async #find(ref: string, address: string): Promise<OpenSource> {
    const now = this.#deps.clock.steady()
    const key = sourceKeyOf(ref)
    const open = key === undefined ? undefined : await this.#open(key, now)
    if (open !== undefined && isNamed(open, ref, this.#deps.clock.now()) && !open.source.disabled) return open
    this.#deps.onArrival?.('unknown', 'not_found')
    const waitMs = this.#unknown.note(address, now)
    if (waitMs > 0) {
      const message = 'Too many requests of this address named no source.'
      throw new AppError('rate_limited', message, [], { retryAfterMs: waitMs })
    }
    throw new AppError('not_found', 'There is no such source.')
  }

  #open(key: number, now: SteadyMs): OpenSource | Promise<OpenSource | undefined> {
    const known = this.#known.get(key)
    if (known !== undefined && known.until > now) return known.open
    const reading = this.#reading.get(key)
    if (reading !== undefined) return reading
    const read = this.#read(key, now).finally(() => this.#reading.delete(key))
    this.#reading.set(key, read)
    return read
  }

  async #read(key: number, now: SteadyMs): Promise<OpenSource | undefined> {
    const source = await this.#deps.store.sourceAt(key)
    this.#known.delete(key)
    if (source === undefined) return undefined
    const open = openSource(source, this.#verifying)
    putLast(this.#known, key, { open, until: now + believedForMs }, remembered)
    return open
  }

  /** Throws AppError when the application has to wait before its next arrival. */
  #refuseAboveRate(open: OpenSource, waitMs = 0): void {
    if (waitMs === 0) return
    const message = `Too many requests: the limit arrivalRatePerApp is ${this.#deps.limits.arrivalRatePerApp}.`
    throw this.#limited(open, message, waitMs)
  }

  #limited(open: OpenSource, message: string, waitMs: number): AppError {
    this.#count(open, 'rate_limited')
    return new AppError('rate_limited', message, [], { retryAfterMs: waitMs })
  }

  /**
   * Such a request is no part of a flood: it may be genuine, and its sender is let in when the keys are there. The reason may
   * name a URL of the operator, so the sample has it and the answer does not.
   */
  #unavailable(open: OpenSource, arrival: Arrival, address: string, unavailable: Unavailable): AppError {
    const { reason, retryAfterMs } = unavailable
    this.#count(open, 'unavailable', { source: open.source, reason, arrival, address })
    return new AppError('unavailable', 'The request cannot be verified now.', [], { retryAfterMs })
  }

  #refuse(open: OpenSource, arrival: Arrival, address: string, { code, reason }: Refusal): AppError {
    this.#floods.refused(open.source.key, address, 1 + Math.floor(arrival.body.byteLength / bytesPerToken))
    this.#count(open, code, { source: open.source, reason, arrival, address })
    return code === 'wrong_method'
      ? new AppError('method_not_allowed', reason)
      : new AppError('not_verified', 'The request could not be verified.')
  }

  /** Counts a refused arrival. A request that a limit refuses has no sample. */
  #count({ source, provider }: OpenSource, code: string, sample?: Refused): void {
    this.#notes.refused(source.key, code, sample)
    this.#deps.onArrival?.(provider, code)
  }
}

/** The body of a sample whose request was refused before its body was read. */
const unread = new Uint8Array(0)

function openSource(source: ArrivingSource, deps: VerifierDeps): OpenSource {
  const provider = isProviderName(source.provider) ? source.provider : 'none'
  if (source.damaged === true || provider !== source.provider) return { source, provider, verifier: unreadable }
  const { settings, secrets } = source
  try {
    return { source, provider, verifier: openVerifier({ provider, settings, secrets }, deps) }
  } catch (error) {
    // Stored by a version with other settings.
    if (error instanceof AppError) return { source, provider, verifier: unreadable }
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
