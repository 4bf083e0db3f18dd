import type { EpochMs } from './clock.ts'
import { type Attempt, type DeadLetter, type Message, timed } from './delivery.ts'
import type { Endpoint } from './endpoint.ts'

/** Where a delivery stands, by name. */
export type WhyReason =
  | 'delivered'
  | 'dead'
  | 'cancelled' //          its message was expunged, or it was taken out of the queue
  | 'not_subscribed' //     the message was never meant for this endpoint
  | 'queueing' //           accepted for very many endpoints, and not queued for this one yet
  | 'disabled'
  | 'paused'
  | 'no_worker' //          nobody is there to deliver it
  | 'held' //               the receiver asked for silence
  | 'scheduled' //          published for later
  | 'waiting_for_retry'
  | 'rate_limited'
  | 'behind_others'
  | 'sending' //            being sent, or about to be
  | 'waiting_for_worker' // due, and a worker is about to take the lane

/** The answer to "why is this not delivered yet?". */
export interface Why {
  readonly reason: WhyReason
  /** One sentence for people. */
  readonly detail: string
  /** When it will next move by itself; null when that is now, never, or not known. */
  readonly nextAt: EpochMs | null
}

/** Everything the answer is made from, as of one reading of the store's clock. */
export interface WhyFacts {
  readonly now: EpochMs
  readonly message: Pick<Message, 'expunged' | 'endpoints'>
  readonly endpoint: Pick<Endpoint, 'key' | 'disabled' | 'disabledReason' | 'paused'>
  readonly latest: Pick<Attempt, 'code' | 'status'> | undefined
  readonly dead: Pick<DeadLetter, 'reason' | 'diedAt'> | undefined
  readonly queued:
    | { readonly class: number; readonly dueAt: EpochMs; readonly attempts: number; readonly ahead: number }
    | undefined
  readonly lane: {
    readonly owner: unknown
    readonly dueAt: EpochMs | null
    readonly holdUntil: EpochMs
    readonly notBefore: EpochMs
    readonly workersAlive: number
  }
}

/** Decides where a delivery stands. What stops a whole endpoint comes before what concerns one delivery alone. */
export function whyNotDelivered(facts: WhyFacts): Why {
  const { queued } = facts
  if (queued === undefined) return ended(facts)
  return stopped(facts) ?? waiting(facts, queued)
}

function ended({ message, endpoint, latest, dead }: WhyFacts): Why {
  if (dead) {
    return why('dead', `It is a dead letter (${dead.reason}) since ${text(dead.diedAt)}; it can be replayed.`)
  }
  if (latest?.code === 'delivered') return why('delivered', `The receiver answered ${latest.status}.`)
  if (message.expunged) return why('cancelled', "The message's content was expunged before it was delivered.")
  if (latest !== undefined) return why('cancelled', 'It was taken out of the queue before it was delivered.')
  if (!message.endpoints.includes(endpoint.key)) {
    return why('not_subscribed', 'The endpoint did not subscribe to this message when it was published.')
  }
  return why('queueing', 'The message goes to very many endpoints and is being queued for them.')
}

/** What keeps the endpoint from getting anything at all. */
function stopped({ now, endpoint, lane }: WhyFacts): Why | undefined {
  if (endpoint.disabled) {
    const cause = endpoint.disabledReason === 'gone' ? 'because the receiver answered 410' : 'by an operator'
    return why('disabled', `The endpoint was disabled ${cause}; it is delivered once the endpoint is enabled.`)
  }
  if (endpoint.paused) return why('paused', 'The endpoint is paused; it is delivered once the endpoint is resumed.')
  if (lane.workersAlive === 0) return why('no_worker', 'No worker is alive: start `sluice serve` or `sluice worker`.')
  if (lane.holdUntil > now) {
    return why('held', `The receiver asked for silence until ${text(lane.holdUntil)} (Retry-After).`, lane.holdUntil)
  }
  return undefined
}

function waiting({ now, lane }: WhyFacts, queued: NonNullable<WhyFacts['queued']>): Why {
  if (queued.class === timed && queued.dueAt > now) {
    if (queued.attempts === 0) return why('scheduled', `It is to be sent at ${text(queued.dueAt)}.`, queued.dueAt)
    const detail = `After ${count(queued.attempts, 'failed attempt')}, the next one is due at ${text(queued.dueAt)}.`
    return why('waiting_for_retry', detail, queued.dueAt)
  }
  if (lane.owner === null && lane.notBefore > now) {
    return why(
      'rate_limited',
      `The endpoint's rate limit lets the next one go at ${text(lane.notBefore)}.`,
      lane.notBefore,
    )
  }
  if (queued.ahead > 0) {
    return why('behind_others', `${count(queued.ahead, 'delivery', 'deliveries')} of the endpoint are in front of it.`)
  }
  if (lane.owner !== null) return why('sending', 'It is first in its queue: being sent, or about to be.')
  return why('waiting_for_worker', 'It is due; a worker is about to take it.', lane.dueAt)
}

function why(reason: WhyReason, detail: string, nextAt: EpochMs | null = null): Why {
  return { reason, detail, nextAt }
}

function text(at: EpochMs): string {
  return new Date(at).toISOString()
}

function count(n: number, one: string, many = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`
}
