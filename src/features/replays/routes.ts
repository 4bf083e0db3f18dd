import { type Static, Type } from 'typebox'
import { AppError } from '../../domain/app-error.ts'
import type { Clock } from '../../domain/clock.ts'
import type { Message } from '../../domain/delivery.ts'
import { firstKeyAt } from '../../domain/ids.ts'
import { attempt, view } from '../../operations/access.ts'
import {
  closed,
  dateTime,
  described,
  flag,
  instant,
  integer,
  iso,
  maybe,
  optional,
  whole,
} from '../../operations/fields.ts'
import { type Noun, route } from '../../operations/route.ts'
import { refuseIf, toleranceMs } from '../../operations/validate.ts'
import type { Store } from '../../store/store.ts'
import { success } from '../attempts/schemas.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import type { ReplayFilter, TaskWork } from '../tasks/rules.ts'
import { perSecond, readSpan, startTask, TaskStartedOut } from '../tasks/schemas.ts'

/** Messages accepted from `since` on, before `until`. */
const ReplayIn = Type.Object(
  {
    since: described(dateTime, 'From this instant on, RFC 3339.'),
    until: maybe(dateTime, 'Before this instant, RFC 3339; now by default.'),
    perSecond,
  },
  closed,
)

const ReplayableQuery = Type.Object({
  since: described(dateTime, 'From this instant on, RFC 3339.'),
  until: optional(dateTime, 'Before this instant, RFC 3339; now by default.'),
})

const ReplayableOut = Type.Object({
  failed: whole('Dead letters of the endpoint, which `recover` sends again.'),
  failedMore: flag('Whether there may be more: counting stops at 100,000.'),
  messages: whole(
    'Messages of the application, among which `replay-missing` and `bulk-replay` look for those to send.',
  ),
  messagesMore: flag('Whether there may be more: counting stops at 100,000.'),
  until: instant('The end of the span. With it as `until`, a replay takes no message that was accepted later.'),
})

const countLimit = 100_000

const BulkReplayIn = Type.Object(
  {
    ...ReplayIn.properties,
    eventTypes: maybe(
      Type.Array(Type.String({ maxLength: 256 }), {
        minItems: 1,
        maxItems: 1000,
        description: 'Event types: names, groups such as `video.*`, or `*`; null for all.',
      }),
    ),
    channel: maybe(Type.String({ maxLength: 128, description: 'Only messages with this channel.' })),
    tag: maybe(Type.String({ maxLength: 128, description: 'Only messages with this tag.' })),
    status: maybe(Type.Enum([0, 2], { description: '0 success, 2 fail' })),
    statusCodeClass: maybe(
      integer(0, 500),
      'Only messages with this class of answer: 0 for no answer, 200, 300, 400 or 500.',
    ),
  },
  closed,
)

const recoverMs = 14 * 24 * 60 * 60 * 1000
const tooOld = {
  at: ['body', 'since'],
  message: 'must not be more than 14 days ago; replay dead letters to send older messages again',
  type: 'range',
}

function toInput({ key: endpoint }: Endpoint, body: Static<typeof ReplayIn>, clock: Clock, empty?: 'may be empty') {
  return { endpoint, ...readSpan(body, clock.now(), 'body', empty), perSecond: body.perSecond ?? null }
}

function toReplayFilter(input: Static<typeof BulkReplayIn>): ReplayFilter {
  const { eventTypes = null, channel = null, tag = null, status = null, statusCodeClass: statusClass = null } = input
  const outcome = status === null ? null : status === success ? 'delivered' : 'failed'
  return { eventTypes, channel, tag, outcome, statusClass }
}

function start(store: Store, { app }: Endpoint, work: TaskWork) {
  return startTask(store, app, work, { scanned: 0, replayed: 0 })
}

function whyErased({ eraseReason }: Message): string {
  if (eraseReason === null) return "The message's content was expunged."
  if (eraseReason === 'subject') return 'The payload was erased because it named a data subject that was erased.'
  return 'The payload was erased when all deliveries of the message had succeeded (eraseDelivered of the application). Publish the message again.'
}

export const replays = {
  tag: 'Replay',
  description:
    'Sending messages again: after all others, at the pace of the endpoint. Larger replays are background tasks.',
  schemas: { ReplayIn, ReplayableOut, BulkReplayIn },
  routes: [
    route('POST /app/:app/msg/:message/endpoint/:endpoint/resend', attempt, {
      id: 'v1.message-attempt.resend',
      summary: 'Send a message to an endpoint again',
      answers: { 202: Type.Object({}) },
      handle: async ({ message, endpoint }, { store }) => {
        if (message.expunged) throw new AppError('missing_payload', whyErased(message))
        await store.replay([{ endpoint: endpoint.key, message: message.key }])
        return {}
      },
    }),
    route('GET /app/:app/endpoint/:endpoint/replayable', view, {
      id: 'v1.endpoint.replayable',
      summary: 'Count what a replay to an endpoint looks at',
      query: ReplayableQuery,
      answers: { 200: ReplayableOut },
      handle: async ({ app, endpoint, query }, { store, clock }) => {
        const { since, until } = readSpan(query, clock.now(), 'query')
        const range = { from: firstKeyAt(since), until: Math.min(firstKeyAt(until), Number.MAX_SAFE_INTEGER) }
        const failed = await store.countListed({ of: 'dead by message', endpoint: endpoint.key, ...range }, countLimit)
        const messages = await store.countListed({ of: 'messages', app: app.key, ...range }, countLimit)
        return {
          failed,
          failedMore: failed === countLimit,
          messages,
          messagesMore: messages === countLimit,
          until: iso(until),
        }
      },
    }),
    route('POST /app/:app/endpoint/:endpoint/recover', attempt, {
      id: 'v1.endpoint.recover',
      summary: 'Send the failed messages of an endpoint again',
      description: 'Messages of the last 14 days. Replay dead letters to send older ones again.',
      body: ReplayIn,
      answers: { 202: TaskStartedOut },
      handle: ({ endpoint, body }, { store, clock }) => {
        const input = toInput(endpoint, body, clock, 'may be empty')
        refuseIf(input.since < clock.now() - recoverMs - toleranceMs ? [tooOld] : [])
        return start(store, endpoint, { type: 'endpoint.recover', input })
      },
    }),
    route('POST /app/:app/endpoint/:endpoint/replay-missing', attempt, {
      id: 'v1.endpoint.replay-missing',
      summary: "Send messages that match the endpoint's filters and that it never received",
      body: ReplayIn,
      answers: { 202: TaskStartedOut },
      handle: ({ endpoint, body }, { store, clock }) =>
        start(store, endpoint, { type: 'endpoint.replay', input: toInput(endpoint, body, clock) }),
    }),
    route('POST /app/:app/endpoint/:endpoint/bulk-replay', attempt, {
      id: 'v1.endpoint.bulk-replay',
      summary: 'Send messages that match a filter again',
      body: BulkReplayIn,
      answers: { 202: TaskStartedOut },
      handle: ({ endpoint, body }, { store, clock }) => {
        const input = { ...toInput(endpoint, body, clock), ...toReplayFilter(body) }
        return start(store, endpoint, { type: 'endpoint.bulk-replay', input })
      },
    }),
  ],
} satisfies Noun
