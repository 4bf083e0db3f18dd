import { isUtf8 } from 'node:buffer'
import { AppError } from '../domain/app-error.ts'
import type { Sliced } from '../domain/turns.ts'
import { afterScalar, afterSpace, afterString, textOf, unexpected } from './token.ts'

/** Where the values of a JSON text lie in its bytes. */

export const quote = 0x22
const openBrace = 0x7b
const openBracket = 0x5b
const closeBrace = 0x7d
const closeBracket = 0x5d
const colon = 0x3a
const comma = 0x2c

/** Steps of about 50 ns to parse a JSON text: per byte and per member. Measured on 1 MB: up to 12 ms and 65 ms. */
const parseStepsPerByte = 0.25
const parseStepsPerKey = 20
/** Steps that parsing one body may take: it cannot be interrupted. A body of 4 MB takes more, or one of 40,000 members. */
const parseStepsLimit = 1_000_000

/** Values that are read between two pauses: some 50 µs. */
const valuesPerPart = 512

/** A member of an object, or an element of an array, which has no name. */
export interface JsonPart {
  /** Its name, or its index. */
  readonly name: string
  /** Where its name begins, or the value of an element. */
  readonly start: number
  /** Where the name ends; as `start` for an element. */
  readonly nameEnd: number
  readonly value: number
  readonly end: number
}

/** The bytes of one JSON value, checked, with the places of its containers: no walk reads over one of them twice. */
export class Outline {
  readonly bytes: Buffer
  /** The members of all objects together. */
  readonly keys: number
  /** Where the containers that are not empty begin, ascending, and the bytes behind each of them. */
  readonly #starts: readonly number[]
  readonly #ends: readonly number[]

  private constructor(bytes: Buffer, keys: number, starts: readonly number[], ends: readonly number[]) {
    this.bytes = bytes
    this.keys = keys
    this.#starts = starts
    this.#ends = ends
  }

  /** Reads a body; undefined when it is not one JSON value. */
  static *of(body: Uint8Array): Sliced<Outline | undefined> {
    const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
    if (!isUtf8(bytes)) return undefined
    try {
      return yield* Outline.#read(bytes)
    } catch (error) {
      if (error instanceof AppError) return undefined
      throw error
    }
  }

  static *#read(bytes: Buffer): Sliced<Outline> {
    const starts: number[] = []
    const ends: number[] = []
    /** The containers that are open, by their number. */
    const open: number[] = []
    let keys = 0
    let i = afterSpace(bytes, 0)
    for (let values = 1; ; values++) {
      if (values % valuesPerPart === 0) yield
      const first = bytes[i]
      let isBegun = false
      if (first === openBrace || first === openBracket) {
        const inner = afterSpace(bytes, i + 1)
        if (bytes[inner] === (first === openBrace ? closeBrace : closeBracket)) i = afterSpace(bytes, inner + 1)
        else {
          open.push(starts.length)
          starts.push(i)
          ends.push(0)
          i = inner
          if (first === openBracket) continue
          isBegun = true
        }
      } else i = afterSpace(bytes, afterScalar(bytes, i))

      // A value has ended, or an object has just begun: close all that ends here, up to the next value.
      for (;;) {
        const container = open.at(-1)
        if (container === undefined) {
          if (i < bytes.length) throw unexpected(bytes, i)
          return new Outline(bytes, keys, starts, ends)
        }
        const isObject = bytes[starts[container] as number] === openBrace
        if (isBegun || bytes[i] === comma) {
          if (!isBegun) i = afterSpace(bytes, i + 1)
          isBegun = false
          if (!isObject) break
          keys++
          i = afterSpace(bytes, afterString(bytes, i))
          if (bytes[i] !== colon) throw unexpected(bytes, i)
          i = afterSpace(bytes, i + 1)
          break
        }
        if (bytes[i] !== (isObject ? closeBrace : closeBracket)) throw unexpected(bytes, i)
        ends[container] = i + 1
        open.pop()
        i = afterSpace(bytes, i + 1)
      }
    }
  }

  /** The steps of about 50 ns that parsing takes. */
  get parseSteps(): number {
    return this.bytes.length * parseStepsPerByte + this.keys * parseStepsPerKey
  }

  /** Whether parsing takes no longer than others may be kept waiting. */
  get isParsable(): boolean {
    return this.parseSteps <= parseStepsLimit
  }

  parse(): unknown {
    return JSON.parse(this.bytes.toString('utf8'))
  }

  /** Where the whole value begins. */
  get start(): number {
    return afterSpace(this.bytes, 0)
  }

  isContainer(at: number): boolean {
    return this.bytes[at] === openBrace || this.bytes[at] === openBracket
  }

  isArray(at: number): boolean {
    return this.bytes[at] === openBracket
  }

  /** Where the first part of the container that begins at `at` lies; for an empty one, where it is closed. */
  insideOf(at: number): number {
    return afterSpace(this.bytes, at + 1)
  }

  isEmpty(at: number): boolean {
    const byte = this.bytes[this.insideOf(at)]
    return byte === closeBrace || byte === closeBracket
  }

  /** The byte behind the value that begins at `at`. */
  endOf(at: number): number {
    if (!this.isContainer(at)) return afterScalar(this.bytes, at)
    if (this.isEmpty(at)) return this.insideOf(at) + 1
    let low = 0
    let high = this.#starts.length - 1
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#starts[middle] as number) < at) low = middle + 1
      else high = middle
    }
    return this.#ends[low] as number
  }
}

/** Reads the members or elements of one container, one after the other. */
export class PartReader {
  readonly #outline: Outline
  readonly #isObject: boolean
  readonly #withNames: boolean
  #next: number
  #count = 0

  /** `at` is where the container begins. Without `withNames` the names of the parts are left empty. */
  constructor(outline: Outline, at: number, withNames = true) {
    this.#outline = outline
    this.#isObject = !outline.isArray(at)
    this.#withNames = withNames
    this.#next = outline.isEmpty(at) ? -1 : outline.insideOf(at)
  }

  /** Undefined behind the last one. */
  next(): JsonPart | undefined {
    const start = this.#next
    if (start < 0) return undefined
    const { bytes } = this.#outline
    const nameEnd = this.#isObject ? afterString(bytes, start) : start
    const value = this.#isObject ? afterSpace(bytes, afterSpace(bytes, nameEnd) + 1) : start
    const end = this.#outline.endOf(value)
    const behind = afterSpace(bytes, end)
    this.#next = bytes[behind] === comma ? afterSpace(bytes, behind + 1) : -1
    return { name: this.#withNames ? this.#nameOf(start, nameEnd) : '', start, nameEnd, value, end }
  }

  #nameOf(start: number, end: number): string {
    return this.#isObject ? textOf(this.#outline.bytes, start, end) : String(this.#count++)
  }
}
