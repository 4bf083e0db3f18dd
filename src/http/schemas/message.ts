import { type Static, Type } from 'typebox'
import type { Message } from '../../domain/delivery.ts'
import { keyTime } from '../../domain/ids.ts'
import { integer, namePattern, nullable } from './field.ts'

const channel = Type.String({ minLength: 1, maxLength: 128, pattern: namePattern })

/** What publishes a message, without its payload: that stays bytes. An eventId has no dot, so that it can be signed. */
export const EnvelopeIn = Type.Object({
  eventType: Type.String({ minLength: 1, maxLength: 256, pattern: namePattern }),
  eventId: Type.Optional(
    nullable(Type.String({ minLength: 1, maxLength: 256, pattern: '^(?!msg_)[a-zA-Z0-9\\-_]+$' })),
  ),
  channels: Type.Optional(nullable(Type.Array(channel, { minItems: 1, maxItems: 5, uniqueItems: true }))),
  payloadRetentionPeriod: Type.Optional(nullable(integer(5, 90))),
})
export type EnvelopeIn = Static<typeof EnvelopeIn>

export const ContentQuery = Type.Object({ with_content: Type.Optional(Type.Boolean()) })
export type ContentQuery = Static<typeof ContentQuery>

export type MessageHead = Pick<Message, 'key' | 'id' | 'eventType' | 'eventId' | 'channels'>

/**
 * A message as callers see it, as bytes: the payload is the producer's own, which no serialiser may touch. All else is
 * ASCII by its pattern and needs no escaping.
 */
export function messageBytes({ key, id, eventType, eventId, channels }: MessageHead, payload: Uint8Array): Buffer {
  const head = `{"id":"${id}","eventType":"${eventType}","payload":`
  const eventIdText = eventId === null ? 'null' : `"${eventId}"`
  const channelsText = channels === null ? 'null' : JSON.stringify(channels)
  const timestamp = new Date(keyTime(key)).toISOString()
  const tail = `,"eventId":${eventIdText},"channels":${channelsText},"timestamp":"${timestamp}"}`
  const bytes = Buffer.allocUnsafe(head.length + payload.length + tail.length)
  bytes.write(head, 0, 'latin1')
  bytes.set(payload, head.length)
  bytes.write(tail, head.length + payload.length, 'latin1')
  return bytes
}

/** What stands for a payload that was not asked for. */
export const noPayload = Buffer.from('{}')
