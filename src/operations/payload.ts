import type { MessageSummary } from '../domain/delivery.ts'
import type { Store } from '../store/store.ts'
import { messageBytes, noPayload, shownPayload } from './nouns/message-schema.ts'

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
