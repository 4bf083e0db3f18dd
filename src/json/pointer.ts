import { AppError } from '../domain/app-error.ts'
import type { ByteSpan } from './scan.ts'
import { afterScalar, afterSpace, afterString, textOf } from './token.ts'

/** How deep a pointer may reach, which also bounds how deep shaping goes into a payload. */
export const pointerDepthLimit = 32

/** In a pointer, stands for every element of an array. In an object it is a name like any other. */
export const everyElement = '*'

/** The reference tokens of a valid JSON pointer (RFC 6901); none for the pointer to the whole document. */
function stepsOf(pointer: string): string[] {
  if (pointer === '') return []
  return pointer
    .slice(1)
    .split('/')
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** The reference tokens of a text; undefined when it is no pointer, too deep, or names the whole document. */
export function readPointer(text: string): string[] | undefined {
  if (!text.startsWith('/') || /~(?![01])/.test(text)) return undefined
  const steps = stepsOf(text)
  return steps.length > pointerDepthLimit ? undefined : steps
}

const quote = 0x22
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d
const colon = 0x3a
const comma = 0x2c
const backslash = 0x5c
const letterU = 0x75

/**
 * Where the value that a JSON pointer names lies in the bytes; undefined when there is none, or when the bytes are not
 * JSON as far as they had to be read. Nothing in front of it or in it is built.
 */
export function valueAt(body: Uint8Array, pointer: string): ByteSpan | undefined {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  try {
    let at = afterSpace(bytes, 0)
    for (const step of stepsOf(pointer)) {
      const found = bytes[at] === openBrace ? memberOf(bytes, at, Buffer.from(step)) : elementOf(bytes, at, step)
      if (found === undefined) return undefined
      at = found
    }
    return { start: at, end: afterValue(bytes, at) }
  } catch (error) {
    if (error instanceof AppError) return undefined
    throw error
  }
}

/** Where the value of an object's member begins. */
function memberOf(body: Buffer, object: number, name: Buffer): number | undefined {
  let at = afterSpace(body, object + 1)
  while (body[at] === quote) {
    const end = afterString(body, at)
    const isIt = isName(body, at, end, name)
    at = afterSpace(body, end)
    if (body[at] !== colon) return undefined
    at = afterSpace(body, at + 1)
    if (isIt) return at
    at = afterSpace(body, afterValue(body, at))
    if (body[at] !== comma) return undefined
    at = afterSpace(body, at + 1)
  }
  return undefined
}

/** `b` in `\b` and so on, with the bytes that they stand for. */
const escapes = new Map([...'"\\/bfnrt'].map((letter, i) => [letter.charCodeAt(0), '"\\/\b\f\n\r\t'.charCodeAt(i)]))

/**
 * Whether the string between two quotes is a name. It is compared byte by byte up to the first difference, with or without
 * escapes: to decode every key of a mebibyte took 100 ms, or 150 ms with escapes.
 */
function isName(body: Buffer, start: number, end: number, name: Buffer): boolean {
  let at = 0
  for (let i = start + 1; i < end - 1; i++, at++) {
    let byte = body[i] as number
    if (byte === backslash && body[++i] === letterU) {
      byte = codeUnitAt(body, i + 1)
      i += 4
      // A code unit beyond ASCII is more than one byte, and only a name of the same kind can have it here.
      if (byte > 0x7f) return (name[at] ?? 0) > 0x7f && textOf(body, start, end) === name.toString()
    } else if (byte === backslash) byte = escapes.get(body[i] as number) as number
    if (byte !== name[at]) return false
  }
  return at === name.length
}

/** The number that four hex digits write. */
function codeUnitAt(body: Buffer, at: number): number {
  let unit = 0
  for (let i = at; i < at + 4; i++) {
    const digit = body[i] as number
    unit = 16 * unit + (digit <= 0x39 ? digit - 0x30 : (digit | 0x20) - 0x57)
  }
  return unit
}

/** Where an array's element begins; undefined for other values, and for an index beyond the end. */
function elementOf(body: Buffer, array: number, step: string): number | undefined {
  if (body[array] !== openBracket || !/^(0|[1-9]\d{0,8})$/.test(step)) return undefined
  let at = afterSpace(body, array + 1)
  if (body[at] === closeBracket) return undefined
  for (let left = Number(step); left > 0; left--) {
    at = afterSpace(body, afterValue(body, at))
    if (body[at] !== comma) return undefined
    at = afterSpace(body, at + 1)
  }
  return at
}

/** The byte behind the value that begins at `at`. The content of a container is only counted through. */
function afterValue(body: Buffer, at: number): number {
  if (body[at] !== openBrace && body[at] !== openBracket) return afterScalar(body, at)
  let depth = 0
  for (let i = at; i < body.length; i++) {
    const byte = body[i]
    if (byte === quote) i = afterString(body, i) - 1
    else if (byte === openBrace || byte === openBracket) depth++
    else if ((byte === closeBrace || byte === closeBracket) && --depth === 0) return i + 1
  }
  return afterScalar(body, body.length)
}
