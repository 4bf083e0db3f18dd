import type { Clock } from '../domain/clock.ts'
import type { Outcome } from '../domain/outcome.ts'
import { Turns } from '../domain/turns.ts'
import { Attempt, type Wire } from './attempt.ts'
import { notSent } from './classify.ts'
import { createConnector } from './connect.ts'
import { Deadlines } from './deadline.ts'
import { AddressPolicy, type AddressRules } from './guard.ts'
import { prepareLine } from './line.ts'
import { Pool } from './pool.ts'
import { cached, openDns, type Resolve } from './resolve.ts'
import type { Line, Parcel, Sender } from './send.ts'
import { ShapingAttempts, shapedBy, unshapable } from './shaping.ts'

/** What a sender is made with. */
export interface SenderContext extends AddressRules {
  readonly clock: Clock
  /** Sluice's own version, shown to receivers in `user-agent`. */
  readonly version: string
  /** How much of an answer's body is kept; one that is longer is cut off and its connection closed. */
  readonly responseLimitBytes?: number
  /** The longest wait a Retry-After can ask for. */
  readonly retryAfterCapMs?: number
  /** Certificates (PEM) of authorities to trust beside those Node trusts. */
  readonly extraCa?: readonly string[]
  /** How names are resolved; DNS unless given. */
  readonly resolve?: Resolve
}

/** What a context that says nothing gets. */
export const senderDefaults = {
  responseLimitBytes: 16 * 1024,
  retryAfterCapMs: 24 * 60 * 60 * 1000,
} as const

/** Makes the sender that speaks HTTP/1.1. Throws when a network in `allowNetworks` or a certificate in `extraCa` is none. */
export function openSender(context: SenderContext): Sender {
  const { clock } = context
  const policy = new AddressPolicy(context)
  const dns = context.resolve ? undefined : openDns()
  const resolve = cached(context.resolve ?? (dns as NonNullable<typeof dns>).resolve, clock)
  const responseLimitBytes = context.responseLimitBytes ?? senderDefaults.responseLimitBytes
  const connect = createConnector({ policy, resolve, extraCa: context.extraCa ?? [] })
  const wire: Wire = {
    clock,
    pool: new Pool(connect, clock, attemptLimitBytes(responseLimitBytes)),
    deadlines: new Deadlines(clock),
    responseLimitBytes,
    retryAfterCapMs: context.retryAfterCapMs ?? senderDefaults.retryAfterCapMs,
  }
  const userAgent = `Sluice/${context.version}`
  const turns = Turns.by(clock)
  const shaping = new ShapingAttempts()
  let closed = false

  return {
    open(target): Line {
      const line = prepareLine(target, policy, userAgent)
      return {
        send(parcel, onLeave, onEnd, mayLeave) {
          if (closed) return endLater(clock, notSent('aborted', 'Sluice is shutting down.'), onEnd)
          if (typeof line === 'string') return endLater(clock, notSent('blocked', line), onEnd)
          if (clock.now() >= line.signsUntil) {
            return endLater(clock, notSent('blocked', 'Every secret of the endpoint has expired.'), onEnd)
          }
          const begin = (its: Parcel) => {
            const attempt = new Attempt(wire, line, its, onLeave, onEnd, mayLeave)
            return () => attempt.abort()
          }
          if (target.shape === undefined || parcel.variant != null) return begin(parcel)
          const shaped = turns.run(shapedBy(target.shape, parcel))
          if (shaped instanceof Promise) return shaping.add(shaped, begin, onEnd)
          return shaped === undefined ? endLater(clock, notSent('blocked', unshapable), onEnd) : begin(shaped)
        },
      }
    },

    async close() {
      closed = true
      shaping.abort()
      for (const attempt of wire.deadlines.all()) (attempt as Attempt).abort()
      wire.deadlines.close()
      dns?.close()
      await wire.pool.close()
    },
  }
}

/**
 * All that one attempt takes in: twice the body that is kept, for its chunks, and 128 KiB for heads. A head is at most
 * 16 KiB, and an honest receiver sends one or two. An attempt that has its status by then loses nothing.
 */
function attemptLimitBytes(responseLimitBytes: number): number {
  return 2 * responseLimitBytes + 128 * 1024
}

/** Ends an attempt that was never begun, once `send` has returned; aborting it meanwhile is too late to matter. */
function endLater(clock: Clock, outcome: Outcome, onEnd: (outcome: Outcome) => void): () => void {
  clock.soon(() => onEnd(outcome))
  return () => {}
}
