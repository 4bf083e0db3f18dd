import { AppError } from '../domain/app-error.ts'
import { afterString, unexpected } from './token.ts'

const quote = 0x22
const backslash = 0x5c

/**
 * The keys of all objects of one JSON text, kept as spans of its bytes, so that a key met twice in one object is found
 * at the cost of a hash: no string is made unless two hashes agree or a key has escapes.
 */
export class KeySet {
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
