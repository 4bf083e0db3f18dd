import type { SignatureFamily } from '../domain/application-fields.ts'
import type { Clock } from '../domain/clock.ts'
import type { Outcome } from '../domain/outcome.ts'
import { type Parts, Turns } from '../domain/turns.ts'
import { Attempt, type Wire } from './attempt.ts'
import { unanswered } from './classify.ts'
import { createConnector } from './connect.ts'
import { Deadlines } from './deadline.ts'
import { AddressPolicy, type AddressRules } from './guard.ts'
import { Pool } from './pool.ts'
import { cached, openDns, type Resolve } from './resolve.ts'
import type { OutgoingMessage, Sender, Target } from './send.ts'
import { prepareTarget } from './target.ts'

export interface SenderContext extends AddressRules {
  readonly clock: Clock
  /** Sluice's own version, shown to receivers in `user-agent`. */
  readonly version: string
  /** The bytes of an answer's body that are kept; after them the connection is closed. 16 KiB by default. */
  readonly responseLimitBytes?: number
  /** The bytes of an answer's headers that are kept; 4 KiB by default, 0 keeps none. */
  readonly responseHeaderLimitBytes?: number
  /** The longest wait that a Retry-After can ask for; a day by default. */
  readonly retryAfterCapMs?: number
  /** Names of the signature headers of targets that have none of their own; Standard Webhooks' by default. */
  readonly signatureHeaders?: SignatureFamily
  /** Certificates (PEM) of authorities to trust beside those that Node trusts. */
  readonly extraCa?: readonly string[]
  /** Resolves names; by DNS when missing. */
  readonly resolve?: Resolve
}

const dayMs = 24 * 60 * 60 * 1000

/** Makes the sender that speaks HTTP/1.1. Throws when a network in `allowNetworks` or a certificate in `extraCa` is invalid. */
export function openSender(context: SenderContext): Sender {
  const { clock, retryAfterCapMs = dayMs, extraCa = [] } = context
  const { responseLimitBytes = 16 * 1024, responseHeaderLimitBytes = 4 * 1024 } = context
  const policy = new AddressPolicy(context)
  const dns = context.resolve ? undefined : openDns()
  const resolve = cached(context.resolve ?? (dns as NonNullable<typeof dns>).resolve, clock)
  const connect = createConnector({ policy, resolve, extraCa, clock })
  const pool = new Pool(connect, clock, attemptLimitBytes(responseLimitBytes))
  const limits = { responseLimitBytes, responseHeaderLimitBytes, retryAfterCapMs }
  const wire: Wire = { clock, pool, deadlines: new Deadlines(clock), ...limits }
  const turns = Turns.by(clock)
  const shaping = new ShapingAttempts()
  let closed = false
  /** Ends an attempt that never began, once `send` has returned. */
  const endLater = (outcome: Outcome, onEnd: (outcome: Outcome) => void) => {
    clock.soon(() => onEnd(outcome))
    return () => {}
  }

  return {
    open(target) {
      const prepared = prepareTarget(target, policy, `Sluice/${context.version}`, context.signatureHeaders)
      return {
        send(message, onLeave, onEnd, mayLeave, attemptNumber) {
          if (closed) return endLater(unanswered('aborted', 'Sluice is shutting down.'), onEnd)
          if (typeof prepared === 'string') return endLater(unanswered('blocked', prepared), onEnd)
          if (clock.now() >= prepared.signsUntil) {
            return endLater(unanswered('blocked', 'Every secret of the endpoint has expired.'), onEnd)
          }
          const begin = (its: OutgoingMessage) => {
            const attempt = new Attempt(wire, prepared, its, onLeave, onEnd, mayLeave, attemptNumber)
            return () => attempt.abort()
          }
          if (target.shape === undefined || message.variant != null) return begin(message)
          const shaped = turns.run(shapedBy(target.shape, message))
          if (shaped instanceof Promise) return shaping.add(shaped, begin, onEnd)
          return shaped === undefined ? endLater(unanswered('blocked', unshapable), onEnd) : begin(shaped)
        },
      }
    },

    async close() {
      closed = true
      shaping.abort()
      for (const attempt of wire.deadlines.all()) (attempt as Attempt).abort()
      wire.deadlines.close()
      dns?.close()
      await pool.close()
    },
  }
}

/**
 * All bytes that one attempt reads: twice the body that is kept, for its chunks, and 128 KiB for heads. A head is at most
 * 16 KiB, and an honest receiver sends one or two. An attempt that has its status by then loses nothing.
 */
function attemptLimitBytes(responseLimitBytes: number): number {
  return 2 * responseLimitBytes + 128 * 1024
}

const unshapable = 'The endpoint gets only a part of each payload, and that part of this one cannot be determined.'

/** Shapes the body of a message. A signature of the whole body is left out. */
function* shapedBy(shape: NonNullable<Target['shape']>, message: OutgoingMessage): Parts<OutgoingMessage | undefined> {
  const body = yield* shape(message.body)
  return body && { ...message, body, signature: null }
}

/** Attempts that wait for their bodies to be shaped, which takes several turns of the event loop for a large one. */
class ShapingAttempts {
  readonly #waiting = new Set<() => void>()

  /** Begins an attempt when its message is shaped. The answer aborts the attempt, also once it is under way. */
  add(
    shaping: Promise<OutgoingMessage | undefined>,
    begin: (message: OutgoingMessage) => () => void,
    onEnd: (outcome: Outcome) => void,
  ): () => void {
    let abortBegun = () => {}
    const onAbort = () => {
      if (this.#waiting.delete(onAbort)) onEnd(unanswered('aborted', 'Sluice gave the attempt up before it was sent.'))
      else abortBegun()
    }
    this.#waiting.add(onAbort)
    const goOn = async () => {
      const shaped = await shaping.catch((error) => (error instanceof Error ? error : new Error(String(error))))
      if (!this.#waiting.delete(onAbort)) return
      if (shaped instanceof Error) onEnd(unanswered('blocked', `The payload could not be shaped: ${shaped.message}`))
      else if (shaped === undefined) onEnd(unanswered('blocked', unshapable))
      else abortBegun = begin(shaped)
    }
    void goOn()
    return onAbort
  }

  /** Aborts all attempts that wait. */
  abort(): void {
    for (const abort of [...this.#waiting]) abort()
  }
}
