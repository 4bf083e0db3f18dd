import { type FlowValues, flowDefaults } from '../features/endpoints/noun.ts'

/**
 * An endpoint's settings beyond its rate: how Sluice acts when it fails, is stopped or falls behind, and the order and form of
 * its messages. An endpoint stores only the differences from the defaults. `endpointFields` describes each.
 */
export interface Flow extends FlowValues {
  /** An operator's last command to the circuit, numbered so that it is carried out once. */
  readonly circuitOrder: CircuitCommand | null
}

/** When a circuit opens: after so many failures in a row, or when enough of a window's attempts failed. */
export interface CircuitPolicy {
  readonly failures: number
  /** Share of failures within the window, 0 to 1. */
  readonly ratio: number
  readonly windowMs: number
  /** With fewer attempts than this within the window the ratio does not count. */
  readonly minimum: number
  /** How long the circuit stays open; doubled each time the probe fails, up to `maxOpenMs`. */
  readonly openMs: number
  /** The longest open time, random part included. */
  readonly maxOpenMs: number
  /** How long the rate takes to climb back after the circuit closed. */
  readonly rampMs: number
}

/** `open`: until an operator closes it. `close`: as after a probe that succeeded. `reset`: as if no attempt had ever failed. */
export type CircuitAction = 'open' | 'close' | 'reset'

/** An operator's command to a circuit. */
export interface CircuitCommand {
  readonly n: number
  readonly action: CircuitAction
}

/** Waiting deliveries of one event type with the same value at `key` (a JSON pointer) become one: the newest. */
export interface Coalesce {
  readonly windowMs: number
  readonly key: string | null
}

/** The part of a payload that an endpoint gets. JSON pointers name fields. The steps apply in this order. */
export interface Shape {
  /** Only these fields; null for all. */
  readonly keep: readonly string[] | null
  readonly drop: readonly string[]
  readonly rename: Readonly<Record<string, string>>
  /** Fields replaced by a keyed pseudonym. */
  readonly pseudonymize: readonly string[]
  /** `endpoint` unless it is set. */
  readonly pseudonymForm?: PseudonymForm
}

/** Pseudonyms that differ by endpoint, or the bare HMAC that programs of a region's partners have stored. */
export const pseudonymForms = ['endpoint', 'hmac-hex'] as const
export type PseudonymForm = (typeof pseudonymForms)[number]

/** Whether an endpoint gets pseudonyms, for which its region needs a secret. */
export function makesPseudonyms({ shape }: Partial<Pick<Flow, 'shape'>>): boolean {
  return shape != null && shape.pseudonymize.length > 0
}

export type SignatureProfile = Flow['signature']

export const defaultFlow: Flow = { ...flowDefaults, circuitOrder: null }

/** A stored flow with the defaults filled in. */
export function toFlow(stored: Partial<Flow> | null): Flow {
  return stored === null ? defaultFlow : { ...defaultFlow, ...stored }
}

/** The differences of a flow from the defaults; null when there are none. */
export function fromFlow(flow: Flow): Partial<Flow> | null {
  const own = Object.entries(flow).filter(([name, value]) => value !== defaultFlow[name as keyof Flow])
  return own.length === 0 ? null : Object.fromEntries(own)
}

/** How many deliveries may wait at an endpoint, null for the server's limit, and which give way beyond it. */
export type WaitingBound = Pick<Flow, 'maxWaiting' | 'overflow'>

/** Whether the endpoint has no bound of its own: the server's limit holds, and messages beyond it are refused. */
export function isUsualBound({ maxWaiting, overflow }: WaitingBound): boolean {
  return maxWaiting === null && overflow === 'refuse'
}

/** How many deliveries may wait before the oldest give way; undefined for an endpoint whose oldest never do. */
export function trimmedTo({ flow }: { readonly flow: Flow }, serverLimit: number): number | undefined {
  return flow.overflow === 'drop_oldest' ? (flow.maxWaiting ?? serverLimit) : undefined
}

/** Up to `count` of the deliveries that have waited the longest, the oldest first. */
export function oldest<T extends { readonly ageMs: number }>(waiting: readonly T[], count: number): T[] {
  return waiting.toSorted((a, b) => b.ageMs - a.ageMs).slice(0, Math.max(0, count))
}
