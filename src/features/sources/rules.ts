import type { EpochMs } from '../../domain/clock.ts'
import { decodeKey, encodeId, type RandomText } from '../../domain/ids.ts'
import type { Secret } from '../endpoints/rules.ts'

/** A URL that takes webhooks of a provider in and publishes them as messages of its application. */
export interface Source {
  readonly key: number
  readonly id: string
  readonly app: number
  readonly uid: string | null
  readonly name: string
  /** The provider, by its name in the table of providers. */
  readonly provider: string
  /** The provider's settings, as its row of the table describes them. */
  readonly settings: Readonly<Record<string, unknown>>
  /** The secrets that verify arrivals, the newest first. */
  readonly secrets: readonly Secret[]
  /** The tokens of its URL, the newest first. */
  readonly tokens: readonly Secret[]
  readonly disabled: boolean
  readonly metadata: Readonly<Record<string, string>>
  /** The type under which `svix.ingest` created the source; null for a source of the own API. */
  readonly ingestType: string | null
  /** The application was made for this source, and is deleted with it. */
  readonly ownsApp: boolean
  readonly createdAt: EpochMs
  readonly updatedAt: EpochMs
  /** The stored secrets and tokens do not open, so nothing can arrive. */
  readonly damaged?: true
}

/** The number of sources that an application may have by default. */
export const sourcesPerApp = 100

/** A request that a source refused, as it is kept for its operator. */
export interface ArrivalSample {
  readonly at: EpochMs
  /** Why it was refused. */
  readonly code: string
  readonly reason: string
  readonly method: string
  /** The names of its parameters; their values may be secrets. */
  readonly query: string
  readonly address: string
  /** Without headers whose names mark them as secrets. */
  readonly headers: Readonly<Record<string, string>>
  /** The beginning of the body. */
  readonly body: Uint8Array
  /** The length of the whole body; null when it was not read. */
  readonly bytes: number | null
  /** Refusals with the same code between this sample and the one before it. */
  readonly unsampled: number
}

/** The arrivals at a source so far. */
export interface ArrivalSums {
  readonly accepted: number
  readonly acceptedAt: EpochMs | null
  readonly refused: number
  readonly refusedAt: EpochMs | null
  /** Refusals since the last arrival that was accepted. */
  readonly refusedInRow: number
  /** Why the last one was refused. */
  readonly refusedCode: string | null
}

export const noArrivals: ArrivalSums = {
  accepted: 0,
  acceptedAt: null,
  refused: 0,
  refusedAt: null,
  refusedInRow: 0,
  refusedCode: null,
}

/**
 * A token for the URL of a source. It begins with the source's key, like an id, so that it is found without an index; 18
 * random characters follow (107 bits).
 */
export function makeSourceToken(key: number, randomText: RandomText): string {
  return encodeId('in', key, randomText)
}

/** The key of the source that a token or an id names; undefined for any other text. */
export function sourceKeyOf(text: string): number | undefined {
  return decodeKey('in', text) ?? decodeKey('src', text)
}
