import { AppError } from '../domain/app-error.ts'
import type { Scanner } from '../json/scan.ts'
import { Findings } from './schema-check.ts'
import { refuseIf } from './validate.ts'

/** Keys that mean something to JavaScript itself. No setting needs them, and merging one would change every object. */
const forbiddenKeys = new Set(['__proto__', 'constructor', 'prototype'])

/** Refuses a body in an encoding that is not read here: compressed, or in another character set than UTF-8. */
export function checkEncoding(contentType: string | undefined, contentEncoding: string | undefined): void {
  if (contentEncoding !== undefined && contentEncoding.toLowerCase() !== 'identity') {
    throw new AppError('unsupported_media_type', `The content encoding ${contentEncoding} is not supported.`)
  }
  if (contentType === undefined || contentType === 'application/json') return
  const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(contentType)?.[1]
  if (charset !== undefined && !/^utf-?8$/i.test(charset)) {
    throw new AppError('unsupported_media_type', `The character set ${charset} is not supported; send UTF-8.`)
  }
}

/** Reads a body that describes something to keep. Throws AppError when it is no acceptable JSON. */
export function readJson(scanner: Scanner, body: Buffer): unknown {
  scanner.scan(body)
  return checkContents(JSON.parse(body.toString('utf8')))
}

/**
 * Refuses contents that JSON allows and Sluice cannot keep: keys that JavaScript treats specially, and texts that Postgres
 * cannot store (U+0000) or no encoding can carry (half a surrogate pair).
 */
export function checkContents(value: unknown): unknown {
  const found = new Findings(['body'])
  inspect(value, found)
  refuseIf(found.list(), 'Some texts cannot be stored.')
  return value
}

function inspect(value: unknown, found: Findings): void {
  if (typeof value === 'string') {
    if (!isStorable(value)) found.add('must not contain U+0000 or lone surrogates', 'text')
  } else if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) inspectPart(i, value[i], found)
  } else if (typeof value === 'object' && value !== null) {
    for (const key of Object.keys(value)) {
      if (forbiddenKeys.has(key)) throw new AppError('forbidden_key', `The key ${key} is not allowed.`)
      if (!isStorable(key)) found.add('has a key with U+0000 or lone surrogates', 'text')
      inspectPart(key, (value as Record<string, unknown>)[key], found)
    }
  }
}

function inspectPart(step: string | number, value: unknown, found: Findings): void {
  found.at.push(step)
  inspect(value, found)
  found.at.pop()
}

function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}
