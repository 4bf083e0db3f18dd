import { type Static, Type } from 'typebox'
import { AppError } from '../../domain/app-error.ts'
import type { Clock, EpochMs } from '../../domain/clock.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import type { ReplayFilter, Span, TaskWork } from '../../domain/task.ts'
import type { Store } from '../../store/store.ts'
import { attempt } from '../access.ts'
import { maybe } from '../fields.ts'
import { type Noun, route } from '../route.ts'
import { integer } from '../schemas/field.ts'
import { dateTime, readInstants } from '../schemas/instant.ts'
import { refuseIf } from '../validate.ts'
import { success } from './attempt-schema.ts'
import { TaskStartedOut, toStartedOut } from './background-task.ts'

/** How many deliveries a second a replay queues at most. The endpoint's own limits hold besides. */
export const perSecond = maybe(integer(1, 100_000))

/** Messages accepted from `since` on, before `until`. */
const ReplayIn = Type.Object({ since: dateTime, until: maybe(dateTime), perSecond })

const BulkReplayIn = Type.Object({
  ...ReplayIn.properties,
  eventTypes: maybe(Type.Array(Type.String({ maxLength: 256 }), { minItems: 1, maxItems: 1000 })),
  channel: maybe(Type.String({ maxLength: 128 })),
  tag: maybe(Type.String({ maxLength: 128 })),
  status: maybe(Type.Enum([0, 2], { description: '0 success, 2 fail' })),
  statusCodeClass: maybe(integer(0, 500)),
})

/** A message published a moment ago may have a key of the next millisecond, or of a store whose clock is ahead. */
const skewMs = 1000

/** The time a request means, up to now without `until`. Throws AppError when it is empty. */
export function readSpan(input: { readonly since: string; readonly until?: string | null }, now: EpochMs): Span {
  const { since = 0, until = now + skewMs } = readInstants('body', { since: input.since, until: input.until })
  const problem = { at: ['body', 'since'], message: 'must be before until', type: 'range' }
  refuseIf(since >= until ? [problem] : [])
  return { since: Math.max(0, since), until }
}

function toInput({ key: endpoint }: Endpoint, body: Static<typeof ReplayIn>, clock: Clock) {
  return { endpoint, ...readSpan(body, clock.now()), perSecond: body.perSecond ?? null }
}

function toReplayFilter(input: Static<typeof BulkReplayIn>): ReplayFilter {
  const { eventTypes = null, channel = null, tag = null, status = null, statusCodeClass: statusClass = null } = input
  const outcome = status === null ? null : status === success ? 'delivered' : 'failed'
  return { eventTypes, channel, tag, outcome, statusClass }
}

async function start(store: Store, { app }: Endpoint, work: TaskWork) {
  return toStartedOut(await store.createTask({ app, work, data: { scanned: 0, replayed: 0 } }))
}

export const replays: Noun = {
  tag: 'Replay',
  description: 'Sending again: served last, and at the pace of the endpoint. What is many is a background task.',
  schemas: { ReplayIn, BulkReplayIn },
  routes: [
    route({
      method: 'POST',
      path: '/app/:app/msg/:message/endpoint/:endpoint/resend',
      need: attempt,
      id: 'v1.message-attempt.resend',
      summary: 'Send a message to an endpoint again',
      answers: { 202: Type.Object({}) },
      handle: async ({ message, endpoint }, { store }) => {
        if (message.expunged) throw new AppError('missing_payload', "The message's content was expunged.")
        await store.replay([{ endpoint: endpoint.key, message: message.key }])
        return {}
      },
    }),
    route({
      method: 'POST',
      path: '/app/:app/endpoint/:endpoint/recover',
      need: attempt,
      id: 'v1.endpoint.recover',
      summary: 'Send again what an endpoint failed to take',
      body: ReplayIn,
      answers: { 202: TaskStartedOut },
      handle: ({ endpoint, body }, { store, clock }) =>
        start(store, endpoint, { type: 'endpoint.recover', input: toInput(endpoint, body, clock) }),
    }),
    route({
      method: 'POST',
      path: '/app/:app/endpoint/:endpoint/replay-missing',
      need: attempt,
      id: 'v1.endpoint.replay-missing',
      summary: 'Send what an endpoint would have got, had it been there',
      body: ReplayIn,
      answers: { 202: TaskStartedOut },
      handle: ({ endpoint, body }, { store, clock }) =>
        start(store, endpoint, { type: 'endpoint.replay', input: toInput(endpoint, body, clock) }),
    }),
    route({
      method: 'POST',
      path: '/app/:app/endpoint/:endpoint/bulk-replay',
      need: attempt,
      id: 'v1.endpoint.bulk-replay',
      summary: 'Send again what meets a filter',
      body: BulkReplayIn,
      answers: { 202: TaskStartedOut },
      handle: ({ endpoint, body }, { store, clock }) => {
        const input = { ...toInput(endpoint, body, clock), ...toReplayFilter(body) }
        return start(store, endpoint, { type: 'endpoint.bulk-replay', input })
      },
    }),
  ],
}
