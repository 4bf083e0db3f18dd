import { Type } from 'typebox'
import { nullable } from '../schemas/field.ts'
import { EndpointOut } from './endpoint.ts'
import { Instant, listOf, MaybeInstant } from './field.ts'

/** What a message says. */
export const Payload = Type.Object(
  {},
  {
    additionalProperties: true,
    description:
      'The very bytes that were published. `{}` when not asked for, `{"expired":true}` when gone; what is no JSON object stands in one as `contentType` and `base64`.',
  },
)

/** A message as callers see it. */
export const MessageOut = Type.Object({
  id: Type.String(),
  eventType: Type.String(),
  payload: Payload,
  eventId: nullable(Type.String()),
  channels: nullable(Type.Array(Type.String())),
  tags: nullable(Type.Array(Type.String())),
  deliverAt: MaybeInstant,
  expiresAt: MaybeInstant,
  orderingKey: nullable(Type.String()),
  timestamp: Instant,
})

/** Whether a message would reach anybody. */
export const MessagePrecheckOut = Type.Object({ active: Type.Boolean() })

/** Messages that were published together. */
export const MessageBatchOut = listOf(MessageOut)

const status = {
  status: Type.Enum([0, 1, 2, 3, 4], { description: '0 success, 1 pending, 2 fail, 3 sending, 4 canceled' }),
  statusText: Type.Enum(['success', 'pending', 'fail', 'sending', 'canceled']),
}

/** Where a message stands at an endpoint. `canceled` is told only to who asks for expanded statuses. */
const standing = {
  ...status,
  nextAttempt: MaybeInstant,
  coalescedInto: nullable(Type.String({ description: 'The message of the same kind that took its place unsent' })),
}

/** One HTTP try as callers see it. */
export const MessageAttemptOut = Type.Object({
  id: Type.String(),
  msgId: Type.String(),
  endpointId: Type.String(),
  url: Type.String(),
  response: Type.String({ description: 'What the receiver answered, cut short; without an answer, what went wrong.' }),
  responseStatusCode: Type.Integer({ description: '0 when there was no answer' }),
  responseDurationMs: Type.Integer(),
  ...status,
  triggerType: Type.Enum([0, 1], { description: '0 scheduled, 1 manual' }),
  timestamp: Instant,
  code: Type.String({ description: 'The outcome by name, such as `delivered`, `timeout` or `tls_failed`.' }),
  error: nullable(Type.String()),
  attempt: Type.Integer({ description: '1 for the first try of this message at this endpoint' }),
  msg: Type.Optional(MessageOut),
})

/** An endpoint a message was accepted for, and where the message stands there. */
export const MessageEndpointOut = Type.Object({ ...EndpointOut.properties, ...standing })

/** A message that was tried at an endpoint, and where it stands there. */
export const EndpointMessageOut = Type.Object({ ...MessageOut.properties, ...standing })

/** What became of the messages whose contents were to be erased, by the names they were given. */
export const BulkExpungeOut = Type.Object({
  results: Type.Record(Type.String(), Type.Enum(['expunged', 'not-found'])),
})
