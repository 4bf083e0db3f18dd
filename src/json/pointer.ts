import { AppError } from '../domain/app-error.ts'
import type { Span } from './scan.ts'
import { afterScalar, afterSpace, afterString, textOf } from './token.ts'

/** How deep a pointer may reach, which also bounds how deep shaping goes into a payload. */
export const pointerDepthLimit = 32

/** In a pointer, stands for every element of an array. In an object it is a name like any other. */
export const everyElement = '*'

/** The reference tokens of a valid JSON pointer (RFC 6901); none for the pointer to the whole document. */
export function stepsOf(pointer: string): string[] {
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

/**
 * Where the value that a JSON pointer names lies in the bytes; undefined when there is none, or when the bytes are not
 * JSON as far as they had to be read. Nothing in front of it or in it is built.
 */
export function valueAt(body: Uint8Array, pointer: string): Span | undefined {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  try {
    let at = afterSpace(bytes, 0)
    for (const step of stepsOf(pointer)) {
      const found = bytes[at] === openBrace ? memberOf(bytes, at, step) : elementOf(bytes, at, step)
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
function memberOf(body: Buffer, object: number, name: string): number | undefined {
  let at = afterSpace(body, object + 1)
  while (body[at] === quote) {
    const end = afterString(body, at)
    const isIt = textOf(body, at, end) === name
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

/** The byte behind the value that begins at `at`. What lies within a container is only counted through. */
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
