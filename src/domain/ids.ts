import type { NounPrefix } from '../features/nouns.ts'
import type { EpochMs } from './clock.ts'

/**
 * Everything stored has a `key` and an `id`. The key is an integer below 2^53 that grows with time and serves as the
 * primary key; the id is what people see. The id begins with the key, so looking an id up needs no second index:
 * decode the key, fetch the row, compare the rest.
 *
 *   msg_  3xKq0d4Sb  f7Zp1uYcQ2mN8vRt5a
 *         key        18 random characters: an id cannot be guessed from its neighbours
 */
export type Prefix =
  | 'app'
  | 'ep'
  | 'msg'
  | 'atmpt'
  | 'key'
  | 'qtask'
  | 'apptok'
  | 'audit'
  | 'sess'
  | 'slnc'
  /** The token of a source's URL. */
  | 'in'
  | NounPrefix

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const keyLength = 9 // 62^9 > 2^53
const tailLength = 18
/** The digits of a key's lower half. */
const lowDigits = 5
const codes = Uint8Array.from(digits, (digit) => digit.charCodeAt(0))

/** Slots of a key within one millisecond: 32 nodes of 64. */
export const keysPerMs = 2048
const slotsPerNode = 64
export const nodes = keysPerMs / slotsPerNode

/** Makes `length` random base-62 characters. */
export type RandomText = (length: number) => string

export function encodeId(prefix: Prefix, key: number, randomText: RandomText): string {
  // In two halves of small integers, which V8 divides much faster than large ones, and as one text without pieces.
  const [high, low] = [Math.floor(key / 62 ** lowDigits), key % 62 ** lowDigits]
  const head = String.fromCharCode(
    code(high / 62 ** 3),
    code(high / 62 ** 2),
    code(high / 62),
    code(high),
    code(low / 62 ** 4),
    code(low / 62 ** 3),
    code(low / 62 ** 2),
    code(low / 62),
    code(low),
  )
  return `${prefix}_${head}${randomText(tailLength)}`
}

function code(value: number): number {
  return codes[Math.trunc(value) % 62] as number
}

/** The key that an id begins with; undefined when the text is not an id of that kind. */
export function decodeKey(prefix: Prefix, id: string): number | undefined {
  const start = prefix.length + 1
  if (id.length !== start + keyLength + tailLength || !id.startsWith(`${prefix}_`)) return undefined
  let key = 0
  for (let i = start; i < start + keyLength; i++) {
    const digit = digits.indexOf(id[i] as string)
    if (digit < 0) return undefined
    key = key * 62 + digit
  }
  return Number.isSafeInteger(key) ? key : undefined
}

/** The same id under another key; its random part stays. */
export function withKey(prefix: Prefix, id: string, key: number): string {
  return encodeId(prefix, key, () => id.slice(-tailLength))
}

/** When a key was made. */
export function keyTime(key: number): EpochMs {
  return Math.floor(key / keysPerMs)
}

/**
 * No message has a key further ahead of the clock: of the next millisecond, or by a store whose clock is ahead. Work on all
 * messages up to now ends here.
 */
export const keySkewMs = 1000

/** The smallest key of that instant: turns a time filter into a range of keys. */
export function firstKeyAt(at: EpochMs): number {
  return at * keysPerMs
}

/**
 * Hands out keys that grow and never repeat within one node. Two nodes cannot collide, because the node's number is
 * part of the key. More than 64 in one millisecond borrow from the next one.
 */
export class KeyMaker {
  #last = 0

  readonly #node: number

  constructor(node: number) {
    this.#node = node
  }

  next(now: EpochMs): number {
    const fresh = now * keysPerMs + this.#node * slotsPerNode
    if (fresh > this.#last) this.#last = fresh
    else if ((this.#last + 1) % slotsPerNode !== 0) this.#last += 1
    else this.#last += 1 + keysPerMs - slotsPerNode
    return this.#last
  }
}

/** A new row's key and the id made from it. */
export interface Identity {
  readonly key: number
  readonly id: string
}

/**
 * How many keys are tried for one row. A key is taken only when two processes have the same one of 32 node numbers, or
 * when the clock was set back over a restart. Each try uses another number, so this many failures mean another mistake.
 */
export const identityTries = 100
