/**
 * How an endpoint wants to be treated beyond its rate: what happens when it fails, is stopped or falls behind, in which
 * order and in which form it gets its messages. An endpoint stores only what differs from the defaults.
 */
export interface Flow {
  /** When the circuit opens and how it closes again; `off` for never, null for the server's policy. */
  readonly circuit: CircuitPolicy | 'off' | null
  /** Whether a 429 without a hint slows the endpoint down for a while. */
  readonly adaptive: boolean
  /** What becomes of messages published while the endpoint is disabled. */
  readonly whileDisabled: 'hold' | 'drop'
  /** Disabled after failing for this long without one success; null for the server's setting, 0 for never. */
  readonly disableAfterMs: number | null
  /** How many deliveries may wait; null for the server's limit. */
  readonly maxWaiting: number | null
  /** How long a delivery may wait for its end, tried or not; null for what the retry policy says. */
  readonly maxAgeMs: number | null
  /** What gives way when too many wait. */
  readonly overflow: 'refuse' | 'drop_oldest' | 'drop_new'
  /** `fifo`: one at a time, in the order of acceptance. `key`: so for messages with the same ordering key. */
  readonly order: 'none' | 'fifo' | 'key'
  /** In an ordered lane, what a delivery that used up its attempts does to those behind it. */
  readonly deadHead: 'skip' | 'block'
  readonly coalesce: Coalesce | null
  /** An expression over the message; what it is not true of is not delivered. */
  readonly filter: string | null
  readonly shape: Shape | null
  /** Names the secret that pseudonyms are made with. */
  readonly region: string | null
  readonly signature: SignatureProfile
  /** An operator's last word on the circuit. Numbered, so that it is carried out once. */
  readonly circuitOrder: CircuitOrder | null
}

/** When a circuit opens: after so many failures in a row, or when enough of a window's attempts failed. */
export interface CircuitPolicy {
  readonly failures: number
  /** Share of failures within the window, 0 to 1. */
  readonly ratio: number
  readonly windowMs: number
  /** Fewer attempts than this within the window say nothing. */
  readonly minimum: number
  /** How long it stays open; doubled each time the probe fails, up to `maxOpenMs`. */
  readonly openMs: number
  readonly maxOpenMs: number
  /** How long the rate takes to come back to the full after it closed. */
  readonly rampMs: number
}

/** `open`: until it is closed. `close`: as a probe that succeeded would. `reset`: as if nothing had ever failed. */
export type CircuitAction = 'open' | 'close' | 'reset'
export const circuitActions: readonly CircuitAction[] = ['open', 'close', 'reset']

export interface CircuitOrder {
  readonly n: number
  readonly action: CircuitAction
}

/** Waiting deliveries of one event type with the same value at `key` (a JSON pointer) become one: the newest. */
export interface Coalesce {
  readonly windowMs: number
  readonly key: string | null
}

/** What an endpoint gets of a payload: fields are named by JSON pointers. Applied in this order. */
export interface Shape {
  /** Only these; null for all. */
  readonly keep: readonly string[] | null
  readonly drop: readonly string[]
  readonly rename: Readonly<Record<string, string>>
  /** Replaced by a keyed pseudonym. */
  readonly pseudonymize: readonly string[]
}

/**
 * `standard`: Standard Webhooks. `stored`: hex HMAC of the body alone, made at publish, the same on every attempt.
 * `timestamped`: `sha256=` + hex HMAC of `timestamp.body`. `github` and `stripe`: as those two sign.
 */
export type SignatureProfile = 'standard' | 'stored' | 'timestamped' | 'github' | 'stripe'
export const signatureProfiles: readonly SignatureProfile[] = ['standard', 'stored', 'timestamped', 'github', 'stripe']

export const defaultFlow: Flow = {
  circuit: null,
  adaptive: true,
  whileDisabled: 'hold',
  disableAfterMs: null,
  maxWaiting: null,
  maxAgeMs: null,
  overflow: 'refuse',
  order: 'none',
  deadHead: 'skip',
  coalesce: null,
  filter: null,
  shape: null,
  region: null,
  signature: 'standard',
  circuitOrder: null,
}

/** A stored flow with the defaults filled in. */
export function toFlow(stored: Partial<Flow> | null): Flow {
  return stored === null ? defaultFlow : { ...defaultFlow, ...stored }
}

/** What of a flow differs from the defaults; null when nothing does. */
export function fromFlow(flow: Flow): Partial<Flow> | null {
  const own = Object.entries(flow).filter(([name, value]) => value !== defaultFlow[name as keyof Flow])
  return own.length === 0 ? null : Object.fromEntries(own)
}
