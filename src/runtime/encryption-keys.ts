import { hash } from 'node:crypto'

/** A key that sealed records are sealed with. */
export interface EncryptionKey {
  readonly id: string
  /** 32 bytes. */
  readonly bytes: Uint8Array
}

/** The encryption keys cannot be read, or there are none. */
export class EncryptionKeyError extends Error {
  override readonly name = 'EncryptionKeyError'
}

const keyLength = 32

/**
 * Reads keys from text: 32 bytes in base64, or several as `id:base64`, separated by commas or lines. A key without an id
 * gets one made from its hash. Undefined when the text is anything else.
 */
export function readEncryptionKeys(text: string): EncryptionKey[] | undefined {
  const keys: EncryptionKey[] = []
  for (const part of text.split(/[,\n]/).map((piece) => piece.trim())) {
    if (part === '') continue
    const [, id, encoded = ''] = /^(?:([A-Za-z0-9_-]{1,32}):)?([A-Za-z0-9+/]{43}=)$/.exec(part) ?? []
    const bytes = Buffer.from(encoded, 'base64')
    if (bytes.length !== keyLength) return undefined
    keys.push({ id: id ?? hash('sha256', bytes, 'hex').slice(0, 8), bytes })
  }
  const ids = new Set(keys.map(({ id }) => id))
  return keys.length === 0 || ids.size < keys.length ? undefined : keys
}
