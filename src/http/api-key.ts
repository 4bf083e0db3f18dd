import { hash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { RandomText } from '../domain/ids.ts'

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const randomLength = 30 // 178 bits
const checksumLength = 6 // 62^6 > 2^32

/**
 * Makes an API key: `sk_`, 30 random characters, and their CRC-32 in six. The prefix lets secret scanners find a leaked
 * key; the checksum tells a mistyped one from an unknown one without asking the store.
 */
export function makeApiKey(randomText: RandomText): string {
  const random = randomText(randomLength)
  return `sk_${random}${checksum(random)}`
}

/** Whether a text can be a key made by `makeApiKey`. */
export function isApiKey(text: string): boolean {
  const match = /^sk_([0-9A-Za-z]{30})([0-9A-Za-z]{6})$/.exec(text)
  return match !== null && checksum(match[1] as string) === match[2]
}

/** What the store keeps of a key. Keys are random, so a fast hash gives nothing away. */
export function hashApiKey(key: string): Buffer {
  return hash('sha256', key, 'buffer')
}

function checksum(text: string): string {
  let rest = crc32(text)
  let encoded = ''
  for (let i = 0; i < checksumLength; i++) {
    encoded = digits[rest % 62] + encoded
    rest = Math.floor(rest / 62)
  }
  return encoded
}
