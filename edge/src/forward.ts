import { type EdgeOutcome, outcomeHeader, refuse } from './answer.ts'
import type { Mode } from './fields.ts'
import type { HeaderPair } from './incoming.ts'
import { readUpTo } from './read.ts'

/** A request to the target of a route. */
export interface Outgoing {
  readonly url: string
  readonly headers: readonly HeaderPair[]
  readonly body: Uint8Array<ArrayBuffer>
  readonly timeoutMs: number
}

/** The end of one try to forward a request. Only `answered` comes from the target. */
export type Forwarded =
  | {
      readonly kind: 'answered'
      readonly status: number
      readonly retryAfter: string | null
      readonly contentType: string | null
      readonly body: Uint8Array<ArrayBuffer>
    }
  | { readonly kind: 'unreachable'; readonly problem: string }
  | { readonly kind: 'timeout'; readonly problem: string }

/** The part of an answer's body that is passed back. */
const maxAnswerBytes = 16_384
/** One answer cannot stop a route for longer than this. */
const longestAskedMs = 3_600_000

/** Sends a request once. Never throws. Redirects are not followed: they are the target's answer. */
export async function forward({ url, headers, body, timeoutMs }: Outgoing): Promise<Forwarded> {
  const signal = AbortSignal.timeout(timeoutMs)
  const startedAt = Date.now()
  try {
    const sent = new Headers(headers.map(([name, value]) => [name, value]))
    sent.set(outcomeHeader, 'forwarded')
    const response = await fetch(url, { method: 'POST', headers: sent, body, redirect: 'manual', signal })
    // The status has come, and it decides. A body that breaks off or takes too long is passed back as far as it came.
    const { bytes } = await readUpTo(response.body, maxAnswerBytes, timeoutMs - (Date.now() - startedAt))
    return {
      kind: 'answered',
      status: response.status,
      retryAfter: response.headers.get('retry-after'),
      contentType: response.headers.get('content-type'),
      body: bytes,
    }
  } catch (error) {
    if (signal.aborted) return { kind: 'timeout', problem: `no answer within ${timeoutMs / 1000} s` }
    return { kind: 'unreachable', problem: String(error).slice(0, 200) }
  }
}

/** Whether the target took the request. */
export function isSuccess(forwarded: Forwarded): boolean {
  return forwarded.kind === 'answered' && forwarded.status >= 200 && forwarded.status < 300
}

/**
 * Whether the target will never take the request: a receiver says so with 410, Sluice with any 4xx that is not about the
 * moment.
 */
export function isFinalFor(mode: Mode, forwarded: Forwarded): boolean {
  if (forwarded.kind !== 'answered') return false
  const { status } = forwarded
  if (mode !== 'ingress') return status === 410
  return status >= 400 && status < 500 && ![408, 409, 425, 429].includes(status)
}

/** The target's answer as the answer of the edge: status, Retry-After, content type and the beginning of the body. */
export function passedBack(forwarded: Forwarded, outcome: EdgeOutcome = 'forwarded'): Response {
  if (forwarded.kind === 'timeout') return refuse('target_timeout', `The target: ${forwarded.problem}.`)
  if (forwarded.kind === 'unreachable') return refuse('unreachable', `The target: ${forwarded.problem}`)
  const { status, retryAfter, contentType, body } = forwarded
  const headers = new Headers({ [outcomeHeader]: outcome })
  if (retryAfter !== null) headers.set('retry-after', retryAfter)
  if (contentType !== null) headers.set('content-type', contentType)
  const hasNoBody = status === 204 || status === 205 || status === 304
  return new Response(hasNoBody ? null : body, { status, headers })
}

/** The wait that an answer asks for with Retry-After, in milliseconds: at most an hour, 0 when it asks for none. */
export function askedWaitMs(forwarded: Forwarded, now: number): number {
  const value = (forwarded.kind === 'answered' ? forwarded.retryAfter : null) ?? ''
  const ms = /^\d{1,9}$/.test(value.trim()) ? Number(value) * 1000 : Date.parse(value) - now
  return Number.isFinite(ms) ? Math.min(longestAskedMs, Math.max(0, ms)) : 0
}
