import type { EpochMs } from '../../domain/clock.ts'
import { decodeKey, encodeId, type RandomText } from '../../domain/ids.ts'

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

/** Arrivals at a source since they were noted last. */
export interface ArrivalCount {
  readonly source: number
  readonly accepted: number
  readonly refused: number
  /** Of these, the refusals that came after the last one that was accepted. */
  readonly refusedInRow: number
  readonly refusedCode: string | null
}

export type NewSample = Omit<ArrivalSample, 'at'> & { readonly source: number }
