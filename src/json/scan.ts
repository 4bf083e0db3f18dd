import { isUtf8 } from 'node:buffer'
import { AppError } from '../domain/app-error.ts'
import { afterScalar, afterSpace, afterString, unexpected } from './token.ts'

/** Where a member's value lies in the bytes: `start` is its first byte, `end` the one behind its last. */
export interface ByteSpan {
  readonly start: number
  readonly end: number
}

/**
 * Containers within containers, the outermost counted: a payload of 100 levels in its envelope. `JSON.stringify` overflows
 * its stack at 5,000.
 */
export const depthLimit = 101
/** Members of all objects together. 200,000 of them blocked the event loop for 244 ms in JSON.parse. */
export const keyLimit = 10_000

/** Values outside of the named member: parsing and checking them cannot be interrupted, and 330,000 took 170 ms. */
const valuesLimit = 50_000

const singleLimits = { keys: keyLimit, depth: depthLimit }
/** Of a body with many messages in it, each of which is then scanned by itself. */
export const batchLimits = { keys: 20 * keyLimit, depth: depthLimit + 2 }

const quote = 0x22
const backslash = 0x5c
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d
const colon = 0x3a
const comma = 0x2c

/**
 * Checks that bytes are one JSON text, strictly and in one pass: RFC 8259 without a byte order mark, valid UTF-8, no
 * key twice in an object, bounded in depth and keys. It builds no objects, so that the bytes of a payload can be kept as
 * they came. One scanner serves any number of scans, one after the other.
 */
export class Scanner {
  readonly #keys: KeySet
  /** For each open container: a number of its own when it is an object, 0 when it is an array. */
  readonly #open: Int32Array
  readonly #depthLimit: number
  readonly #seed: number

  /** `seed` is unpredictable, so that no client can choose keys that all collide. */
  constructor(seed: number, limits: { readonly keys: number; readonly depth: number } = singleLimits) {
    this.#keys = new KeySet(limits.keys, seed)
    this.#depthLimit = limits.depth
    this.#open = new Int32Array(limits.depth)
    this.#seed = seed
  }

  /** A scanner with other limits. */
  sized(limits: { readonly keys: number; readonly depth: number }): Scanner {
    return new Scanner(this.#seed, limits)
  }

  /**
   * Throws AppError when the bytes are not acceptable. The answer is the span of the named member of the outermost
   * object; undefined when there is none. That member may have any number of values: it stays bytes.
   */
  scan(body: Buffer, member?: string): ByteSpan | undefined {
    if (!isUtf8(body)) throw new AppError('invalid_utf8', 'The body is not valid UTF-8.')
    const keys = this.#keys
    const open = this.#open
    keys.clear()
    let objects = 0
    let values = 0
    let depth = 0
    let start = -1
    let end = -1
    let i = afterSpace(body, 0)

    for (;;) {
      // Inside the named member its end is not known yet.
      if (start <= end && ++values > valuesLimit) throw tooManyValues()
      // A value begins here.
      const first = body[i]
      if (first === openBrace || first === openBracket) {
        if (depth === this.#depthLimit) throw tooDeep(this.#depthLimit)
        open[depth++] = first === openBrace ? ++objects : 0
        i = afterSpace(body, i + 1)
        if (first === openBracket) {
          if (body[i] !== closeBracket) continue
        } else if (body[i] !== closeBrace) {
          i = afterKey(keys, body, i, objects)
          if (depth === 1 && member !== undefined && keys.lastIs(body, member)) start = i
          continue
        }
      } else {
        i = afterScalar(body, i)
        if (depth === 1 && start > end) end = i
        i = afterSpace(body, i)
      }

      // A value has ended, or an empty container stands before its end: close all that ends here, up to the next value.
      for (;;) {
        if (depth === 0) {
          if (i < body.length) throw unexpected(body, i)
          return start < 0 ? undefined : { start, end }
        }
        const object = open[depth - 1] as number
        const byte = body[i]
        if (byte === (object === 0 ? closeBracket : closeBrace)) {
          depth--
          i++
          if (depth === 1 && start > end) end = i
          i = afterSpace(body, i)
        } else if (byte === comma) {
          i = afterSpace(body, i + 1)
          if (object === 0) break
          i = afterKey(keys, body, i, object)
          if (depth === 1 && member !== undefined && keys.lastIs(body, member)) start = i
          break
        } else throw unexpected(body, i)
      }
    }
  }
}

/** Takes in a key and its colon; the answer is where the value begins. */
function afterKey(keys: KeySet, body: Buffer, at: number, object: number): number {
  const i = afterSpace(body, keys.add(body, at, object))
  if (body[i] !== colon) throw unexpected(body, i)
  return afterSpace(body, i + 1)
}

function tooManyValues(): AppError {
  return new AppError('too_many_keys', `The body has more than ${valuesLimit} values.`)
}

function tooDeep(limit: number): AppError {
  return new AppError('too_deep', `The body nests deeper than ${limit} levels.`)
}

/** Where the elements of an array lie. The bytes were scanned before, so nothing is checked here. */
export function spansOfElements(body: Buffer, array: ByteSpan): ByteSpan[] {
  const spans: ByteSpan[] = []
  const last = array.end - 1
  let depth = 0
  let start = afterSpace(body, array.start + 1)
  if (start === last) return spans
  for (let i = start; i <= last; i++) {
    const byte = body[i] as number
    if (byte === quote) {
      for (i++; body[i] !== quote; i++) if (body[i] === backslash) i++
    } else if (byte === openBrace || byte === openBracket) depth++
    else if (depth > 0 && (byte === closeBrace || byte === closeBracket)) depth--
    else if (depth === 0 && (byte === comma || i === last)) {
      spans.push({ start, end: i })
      start = afterSpace(body, i + 1)
      i = start - 1
    }
  }
  return spans
}

/**
 * The keys of all objects of one JSON text, kept as spans of its bytes, so that a key met twice in one object is found
 * at the cost of a hash: no string is made unless two hashes agree or a key has escapes.
 */
class KeySet {
  readonly #limit: number
  readonly #seed: number
  readonly #starts: Int32Array
  readonly #ends: Int32Array
  readonly #hashes: Int32Array
  readonly #objects: Int32Array
  /**
   * An open-addressed table of `base + index`. A value below the base is left over from an earlier text and counts as
   * free, so that clearing costs nothing.
   */
  readonly #slots: Int32Array
  readonly #mask: number
  #base = 1
  #count = 0
  #lastHasEscapes = false

  constructor(limit: number, seed: number) {
    this.#limit = limit
    this.#seed = seed | 0
    this.#starts = new Int32Array(limit)
    this.#ends = new Int32Array(limit)
    this.#hashes = new Int32Array(limit)
    this.#objects = new Int32Array(limit)
    // At most a third full, so that a probe rarely meets a second entry.
    this.#slots = new Int32Array(2 ** Math.ceil(Math.log2(limit * 3)))
    this.#mask = this.#slots.length - 1
  }

  clear(): void {
    this.#base += this.#count
    this.#count = 0
    if (this.#base < 2 ** 31 - 1 - this.#limit) return
    this.#slots.fill(0)
    this.#base = 1
  }

  /** Takes in the key whose opening quote is at `at`; the answer is the byte behind it. Throws when `object` has it. */
  add(body: Buffer, at: number, object: number): number {
    if (body[at] !== quote) throw unexpected(body, at)
    const length = body.length
    const start = at + 1
    let hash = Math.imul(this.#seed ^ object, 0x9e3779b1)
    let i = start
    this.#lastHasEscapes = false
    for (; ; i++) {
      const byte = i < length ? (body[i] as number) : 0
      if (byte === quote) break
      if (byte < 0x20) throw unexpected(body, i)
      if (byte === backslash) {
        i = afterString(body, at) - 1
        hash = hashText(Math.imul(this.#seed ^ object, 0x9e3779b1), decode(body, start, i))
        this.#lastHasEscapes = true
        break
      }
      hash = Math.imul(hash ^ byte, 0x01000193)
    }
    this.#insert(body, start, i, hash, object)
    return i + 1
  }

  /** Whether the key taken in last is this one. */
  lastIs(body: Buffer, key: string): boolean {
    const start = this.#starts[this.#count - 1] as number
    const end = this.#ends[this.#count - 1] as number
    if (this.#lastHasEscapes) return decode(body, start, end) === key
    if (end - start !== key.length) return false
    for (let i = 0; i < key.length; i++) if (body[start + i] !== key.charCodeAt(i)) return false
    return true
  }

  #insert(body: Buffer, start: number, end: number, hash: number, object: number): void {
    if (this.#count === this.#limit) throw new AppError('too_many_keys', `The body has more than ${this.#limit} keys.`)
    // The low bits of the hash depend on the low bits of each byte alone: fold the rest in.
    let slot = (hash ^ (hash >>> 15)) & this.#mask
    for (; (this.#slots[slot] as number) >= this.#base; slot = (slot + 1) & this.#mask) {
      const other = (this.#slots[slot] as number) - this.#base
      if (this.#hashes[other] !== hash || this.#objects[other] !== object) continue
      const key = decode(body, start, end)
      if (decode(body, this.#starts[other] as number, this.#ends[other] as number) === key) {
        throw new AppError('duplicate_key', `The key ${JSON.stringify(shorten(key))} stands twice in one object.`)
      }
    }
    const index = this.#count++
    this.#starts[index] = start
    this.#ends[index] = end
    this.#hashes[index] = hash
    this.#objects[index] = object
    this.#slots[slot] = this.#base + index
  }
}

/** The text of a key whose quotes stand around the span. */
function decode(body: Buffer, start: number, end: number): string {
  return JSON.parse(body.toString('utf8', start - 1, end + 1))
}

/** The same hash as over the text's bytes. Lone surrogates, which have none, are hashed as three like their neighbours. */
function hashText(hash: number, text: string): number {
  const mix = (byte: number) => {
    hash = Math.imul(hash ^ byte, 0x01000193)
  }
  for (const character of text) {
    const point = character.codePointAt(0) as number
    if (point < 0x80) mix(point)
    else {
      if (point < 0x800) mix(0xc0 | (point >> 6))
      else {
        if (point < 0x10000) mix(0xe0 | (point >> 12))
        else {
          mix(0xf0 | (point >> 18))
          mix(0x80 | ((point >> 12) & 0x3f))
        }
        mix(0x80 | ((point >> 6) & 0x3f))
      }
      mix(0x80 | (point & 0x3f))
    }
  }
  return hash
}

function shorten(key: string): string {
  return key.length > 40 ? `${key.slice(0, 40)}…` : key
}
