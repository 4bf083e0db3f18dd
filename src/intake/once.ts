import { hash } from 'node:crypto'
import type { Once } from '../store/publishing.ts'
import type { Envelope } from './publication.ts'

/** How long an Idempotency-Key is remembered. */
export const keyLifeMs = 24 * 60 * 60 * 1000

/** 128 bits of SHA-256, as text: enough that no two things anybody will ever send share one. */
export function digest(...parts: readonly (string | Uint8Array)[]): string {
  // Several parts are each told with their length, so that no two lists of them run together alike.
  const [only] = parts
  const text = parts.length === 1 && only !== undefined ? only : parts.map(lengthAndText).join('')
  return hash('sha256', text, 'base64url').slice(0, 22)
}

/**
 * What makes a publish the same as another within its application's dedupe window: the key its producer gave, or else
 * everything a receiver could tell apart.
 */
export function dedupeOnce(app: number, envelope: Envelope, body: Uint8Array, windowMs: number): Once {
  const { dedupeKey, eventType, channels, contentType } = envelope
  const of =
    dedupeKey == null
      ? digest('content', eventType, JSON.stringify(channels), contentType, digest(body))
      : digest('key', dedupeKey)
  return { hash: digest('dedupe', String(app), of), fingerprint: '', ttlMs: windowMs }
}

function lengthAndText(part: string | Uint8Array): string {
  const text = typeof part === 'string' ? part : digest(part)
  return `${text.length}:${text}`
}
