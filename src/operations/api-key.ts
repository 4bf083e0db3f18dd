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
  return make('sk', randomText)
}

/** Whether a text can be a key made by `makeApiKey`. */
export function isApiKey(text: string): boolean {
  return isMade('sk', text)
}

/** Makes a token for one application's portal, like a key but for its prefix. */
export function makeAppToken(randomText: RandomText): string {
  return make('appsk', randomText)
}

/** Whether a text can be a token made by `makeAppToken`. */
export function isAppToken(text: string): boolean {
  return isMade('appsk', text)
}

/** What the store keeps of a key. Keys are random, so a fast hash gives nothing away. */
export function hashApiKey(key: string): Buffer {
  return hash('sha256', key, 'buffer')
}

function make(prefix: string, randomText: RandomText): string {
  const random = randomText(randomLength)
  return `${prefix}_${random}${checksum(random)}`
}

function isMade(prefix: string, text: string): boolean {
  if (!text.startsWith(`${prefix}_`)) return false
  const match = /^([0-9A-Za-z]{30})([0-9A-Za-z]{6})$/.exec(text.slice(prefix.length + 1))
  return match !== null && checksum(match[1] as string) === match[2]
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
