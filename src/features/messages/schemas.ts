import { isUtf8 } from 'node:buffer'
import { type Static, type TArray, type TString, Type } from 'typebox'
import type { Message, MessageFilter, MessageSummary } from '../../domain/delivery.ts'
import { messageFilterFields } from '../../domain/filter-fields.ts'
import { keyTime } from '../../domain/ids.ts'
import {
  closed,
  dateTime,
  described,
  eventIdPattern,
  flag,
  Headers,
  headersMeaning,
  id,
  inQuery,
  instant,
  integer,
  iso,
  lenient,
  listInQuery,
  listOf,
  maybe,
  nameText,
  nullable,
  optional,
  schemaOf,
  shortText,
  text,
  texts,
  whole,
} from '../../operations/fields.ts'
import { PageQuery } from '../../operations/page.ts'
import { payloadIn } from '../../operations/payload.ts'
import type { Store } from '../../store/store.ts'
import { ApplicationIn } from '../applications/schemas.ts'
import { envelopeFields } from './fields.ts'

const Channels = schemaOf(envelopeFields.channels.kind) as TArray<TString>
const Tags = schemaOf(envelopeFields.tags.kind) as TArray<TString>
/** An eventId has no dot, so that it can be signed. */
const EventId = Type.String({ minLength: 1, maxLength: 256, pattern: eventIdPattern })

const ownKey = shortText(256)

/** Descriptions of the fields that requests and answers share. */
const about = {
  eventType: envelopeFields.eventType.description,
  eventId: 'Your own name for the event; using it again is a conflict.',
  channels: envelopeFields.channels.description,
  tags: envelopeFields.tags.description,
  deliverAt: 'Earliest delivery, up to 90 days ahead.',
  expiresAt: 'Discard if undelivered by then, up to 90 days ahead.',
  expiresInSeconds: 'The same as a time from now; give one of the two.',
  dedupeKey: 'Key of the dedupe window of the application, instead of the content.',
  endpoint: envelopeFields.endpoint.description,
  orderingKey: 'Messages with the same key are delivered one after the other to endpoints with `order: key`.',
}
const headers = maybe(Headers, headersMeaning)

/** A publish without its payload, which stays bytes. */
export const EnvelopeIn = Type.Object(
  {
    eventType: described(nameText, about.eventType),
    eventId: maybe(EventId, about.eventId),
    channels: maybe(Channels, about.channels),
    tags: maybe(Tags, about.tags),
    deliverAt: maybe(dateTime, about.deliverAt),
    expiresAt: maybe(dateTime, about.expiresAt),
    expiresInSeconds: maybe(integer(1, 90 * 24 * 3600), about.expiresInSeconds),
    headers,
    dedupeKey: maybe(ownKey, about.dedupeKey),
    orderingKey: maybe(ownKey, about.orderingKey),
    endpoint: maybe(nameText, about.endpoint),
    payloadRetentionPeriod: maybe(integer(5, 90), 'Days until the payload is erased, if earlier than the message.'),
    payloadRetentionHours: maybe(integer(1, 90 * 24), 'The same in hours; takes precedence over the days.'),
  },
  closed,
)
export type EnvelopeIn = Static<typeof EnvelopeIn>

export const MessageFieldsIn = Type.Object({
  ...EnvelopeIn.properties,
  application: maybe(
    ApplicationIn,
    'Creates the application in the path, if it does not exist; a `uid` in it must be that of the path.',
  ),
  /** With `rawPayload`, that text is delivered instead of the payload, as the `content-type` among the headers. */
  transformationsParams: maybe(
    Type.Object(
      {
        rawPayload: maybe(text('Delivered as it is instead of the payload.')),
        headers,
      },
      { ...lenient, description: "How Svix's SDKs send raw payloads." },
    ),
  ),
})
export type MessageFieldsIn = Static<typeof MessageFieldsIn>

export const ContentQuery = Type.Object({
  with_content: optional(Type.Boolean(), 'Whether payloads and answers are included.'),
})
export type ContentQuery = Static<typeof ContentQuery>

export const RawQuery = Type.Object({
  event_type: described(nameText, about.eventType),
  event_id: optional(EventId, about.eventId),
  channels: Type.Optional(listInQuery(about.channels)),
  tags: Type.Optional(listInQuery(about.tags)),
  deliver_at: optional(dateTime, about.deliverAt),
  expires_at: optional(dateTime, about.expiresAt),
  expires_in_seconds: optional(integer(1, 90 * 24 * 3600), about.expiresInSeconds),
  dedupe_key: optional(ownKey, about.dedupeKey),
  ordering_key: optional(ownKey, about.orderingKey),
  endpoint: optional(nameText, about.endpoint),
  with_content: optional(Type.Boolean(), 'Whether the answer includes the payload, in base64; false by default.'),
})
export type RawQuery = Static<typeof RawQuery>

export const MessagePrecheckIn = Type.Object(
  {
    eventType: described(nameText, about.eventType),
    channels: maybe(Channels, about.channels),
    payload: Type.Optional(
      payloadIn('Checked against the filters of endpoints; without it, every filter counts as met.'),
    ),
  },
  lenient,
)

/** A publish. The payload is checked as bytes, the other fields as `MessageFieldsIn`. */
export const MessageIn = Type.Object(
  {
    ...MessageFieldsIn.properties,
    payload: payloadIn('Stored and delivered byte for byte.'),
  },
  lenient,
)

/** Messages one request may publish together. */
export const batchLimit = 1000

export const MessageBatchIn = Type.Object(
  {
    messages: Type.Array(MessageIn, {
      minItems: 1,
      maxItems: batchLimit,
      description: 'Messages to publish, all or none.',
    }),
  },
  lenient,
)

export const Payload = Type.Object(
  {},
  {
    additionalProperties: true,
    description:
      'The bytes that were published. `{}` without `with_content`, `{"expired":true}` when erased; a list or a text is an object with `contentType` and `json`, any other body one with `contentType` and `base64`.',
  },
)

const DeliveryCounts = Type.Object(
  {
    success: Type.Integer(),
    waiting: Type.Integer(),
    fail: Type.Integer(),
    canceled: Type.Integer(),
  },
  {
    description:
      'Number of deliveries by status, in lists with `with_status` only; null for a message with more than 1,000 endpoints, or behind others with 2,000 together.',
  },
)

const warnings = Type.Optional(
  Type.Array(Type.String(), {
    description: 'In the answer to a publish: a sentence for each field that is unknown and was ignored.',
  }),
)

export const MessageOut = Type.Object({
  id,
  eventType: text(about.eventType),
  payload: Payload,
  eventId: nullable(text(about.eventId)),
  channels: texts(about.channels),
  tags: texts(about.tags),
  deliverAt: nullable(instant(about.deliverAt)),
  expiresAt: nullable(instant('Discard if undelivered by then; null for never.')),
  orderingKey: nullable(text(about.orderingKey)),
  timestamp: instant('Time of the event.'),
  deliveries: Type.Optional(nullable(DeliveryCounts)),
  unfiltered: Type.Optional(
    whole(
      'In the answer to a publish, if above 0: deliveries that are dead letters with the reason `unfiltered`, because the filters of their endpoints would have taken more work than one request or application may cause. Replay them to send them, or publish fewer messages at once.',
    ),
  ),
  warnings,
})

export const MessagePrecheckOut = Type.Object({
  active: flag('Whether at least one endpoint would get it.'),
})

export const MessageBatchOut = Type.Object({ ...listOf(MessageOut).properties, warnings })

export const messageFilterProperties = inQuery(messageFilterFields)

export const MessageListQuery = Type.Object({
  ...PageQuery.properties,
  ...messageFilterProperties,
  ...ContentQuery.properties,
  with_status: optional(Type.Boolean(), 'Whether each message has the number of its `deliveries` by status.'),
  delivery_status: optional(
    Type.Enum(['success', 'waiting', 'fail', 'canceled']),
    'Only messages with a delivery of this status; those whose `deliveries` are null are left out.',
  ),
})
export type MessageListQuery = Static<typeof MessageListQuery>

/** The filter of a query, without its time. */
export function toMessageFilter(query: {
  readonly channel?: string
  readonly tag?: string
  readonly event_types?: readonly string[]
}): MessageFilter {
  return { channel: query.channel, tag: query.tag, eventTypes: query.event_types }
}

export const BulkExpungeContentsIn = Type.Object(
  {
    ids: optional(Type.Array(Type.String({ maxLength: 256 }), { maxItems: 100 }), 'Messages, each by id or eventId.'),
  },
  closed,
)
export type BulkExpungeContentsIn = Static<typeof BulkExpungeContentsIn>

export const BulkExpungeContentsOut = Type.Object({
  results: Type.Record(Type.String(), Type.Enum(['expunged', 'not-found'])),
})

/** The fields of a message that an answer shows, apart from its payload. */
type ShownMessage = Pick<Message, 'key' | 'id' | 'eventType' | 'eventId' | 'channels'> &
  Partial<Pick<Message, 'tags' | 'deliverAt' | 'expiresAt' | 'orderingKey'>>

/**
 * A message as callers see it, as bytes: the payload is the producer's own, which no serialiser may touch. All else but the
 * ordering key is ASCII by its pattern and needs no escaping.
 */
export function messageBytes(message: ShownMessage, payload: Uint8Array): Buffer {
  const {
    key,
    id,
    eventType,
    eventId,
    channels,
    tags = null,
    deliverAt = null,
    expiresAt = null,
    orderingKey = null,
  } = message
  const head = `{"id":"${id}","eventType":"${eventType}","payload":`
  const eventIdText = eventId === null ? 'null' : `"${eventId}"`
  const channelsText = channels === null ? 'null' : JSON.stringify(channels)
  const tagsText = tags === null ? 'null' : JSON.stringify(tags)
  const deliverText = deliverAt === null ? 'null' : `"${iso(deliverAt)}"`
  const expiresText = expiresAt === null ? 'null' : `"${iso(expiresAt)}"`
  const orderingText = orderingKey === null ? 'null' : asciiJson(orderingKey)
  const timestamp = iso(keyTime(key))
  const tail =
    `,"eventId":${eventIdText},"channels":${channelsText},"tags":${tagsText},` +
    `"deliverAt":${deliverText},"expiresAt":${expiresText},"orderingKey":${orderingText},"timestamp":"${timestamp}"}`
  const bytes = Buffer.allocUnsafe(head.length + payload.length + tail.length)
  bytes.write(head, 0, 'latin1')
  bytes.set(payload, head.length)
  bytes.write(tail, head.length + payload.length, 'latin1')
  return bytes
}

/** A text as JSON that is ASCII. */
function asciiJson(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/**
 * A payload as callers see it. It is always an object, for the clients of typed languages know no other: a list or a text is
 * its member `json`, and any other bytes, such as a picture, are base64.
 */
export function shownPayload(body: Uint8Array, contentType: string): Uint8Array {
  if (isJsonObject(body)) return body
  if (/json/i.test(contentType) && isJson(body)) return asMember(body, contentType)
  return Buffer.from(JSON.stringify({ contentType, base64: Buffer.from(body).toString('base64') }))
}

/** The payload of a publish that was read as JSON, as callers see it. */
export function shownJson(payload: Uint8Array): Uint8Array {
  return payload[0] === openBrace ? payload : asMember(payload, 'application/json')
}

function asMember(json: Uint8Array, contentType: string): Uint8Array {
  return Buffer.concat([Buffer.from(`{"contentType":${JSON.stringify(contentType)},"json":`), json, Buffer.from('}')])
}

/** Whether the bytes are a JSON object and nothing else. */
export function isJsonObject(body: Uint8Array): boolean {
  return body[0] === openBrace && isJson(body)
}

function isJson(body: Uint8Array): boolean {
  if (!isUtf8(body)) return false
  try {
    JSON.parse(Buffer.from(body).toString())
    return true
  } catch {
    return false
  }
}

const openBrace = 0x7b

/** Replaces a payload that the caller did not ask for. */
export const noPayload = Buffer.from('{}')

const expired = Buffer.from('{"expired":true}')

/** A message's payload as callers see it; one whose bytes are gone says so, as Svix does. */
export function payloadOf(
  message: Pick<MessageSummary, 'contentType' | 'expunged'>,
  body: Uint8Array | undefined,
): Uint8Array {
  return message.expunged || body === undefined ? expired : shownPayload(body, message.contentType)
}

/** Messages as callers see them, in the order given; the bodies are read only when asked for. */
export async function messagesAsBytes(
  store: Store,
  summaries: readonly MessageSummary[],
  withContent: boolean,
): Promise<Buffer[]> {
  if (!withContent) return summaries.map((summary) => messageBytes(summary, noPayload))
  const outgoing = await store.loadMessages([...new Set(summaries.map((summary) => summary.key))])
  const bodies = new Map(outgoing.map(({ key, body }) => [key, body]))
  return summaries.map((summary) => messageBytes(summary, payloadOf(summary, bodies.get(summary.key))))
}
