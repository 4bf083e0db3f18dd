import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import type { Parts } from '../domain/turns.ts'
import { type Outline, quote } from '../json/outline.ts'
import { textOf } from '../json/token.ts'
import { type SubjectRules, unindexedSubject } from '../store/subjects.ts'
import { shaper, visitor } from './shape.ts'

/** Data subjects of one message that are indexed. A message with more is found by reading its body. */
const subjectsLimit = 100
/** Values of one message that are hashed, equal ones included: a hash takes about 3 µs, within the turn of a publish. */
const valuesLimit = 1000

/** The text in place of an erased value. */
const erasedText = '[erased]'

/**
 * Finds the data subjects of an application in payloads. A text counts by its characters, however it was escaped, and a
 * number as it is written: 1 and 1.0 differ, 42 and "42" do not. Other values name no person.
 */
export class SubjectIndex {
  readonly #key: KeyObject | undefined
  readonly #visit: ReturnType<typeof visitor>
  readonly #pointers: readonly string[]

  constructor({ pointers, secret }: SubjectRules) {
    this.#key = secret === null ? undefined : createSecretKey(Buffer.from(secret))
    this.#pointers = pointers
    this.#visit = visitor(pointers)
  }

  /** The hash of a subject; undefined when the application's secret cannot be read. */
  hashOf(subject: string): string | undefined {
    return this.#key && hashUnder(this.#key, subject)
  }

  /** The hashes that a message is stored under. A body that is not JSON names no one. */
  *hashesIn(json: Outline | undefined): Parts<readonly string[]> {
    if (json === undefined) return []
    const key = this.#key
    if (key === undefined) return [unindexedSubject]
    const hashes = new Set<string>()
    let values = 0
    const isOver = () => values > valuesLimit || hashes.size > subjectsLimit
    const visiting = this.#visit(json, (bytes, start, end) => {
      values++
      const subject = isOver() ? undefined : subjectText(bytes, start, end)
      if (subject !== undefined) hashes.add(hashUnder(key, subject))
    })
    for (const pause of visiting) {
      if (isOver()) break
      yield pause
    }
    return isOver() ? [unindexedSubject] : [...hashes]
  }

  /** Whether a body names the subject of this hash. */
  *names(json: Outline | undefined, hash: string): Parts<boolean> {
    const key = this.#key
    if (json === undefined || key === undefined) return false
    let found = false
    const visiting = this.#visit(json, (bytes, start, end) => {
      const subject = found ? undefined : subjectText(bytes, start, end)
      if (subject !== undefined) found = hashUnder(key, subject) === hash
    })
    for (const pause of visiting) {
      if (found) break
      yield pause
    }
    return found
  }

  /** The body with `"[erased]"` in place of every value that a pointer names, whatever its type; a null stays. */
  *without(json: Outline): Parts<Buffer> {
    const shape = { keep: null, drop: [], rename: {}, pseudonymize: this.#pointers }
    return yield* shaper(shape, () => erasedText)(json)
  }
}

/** 128 bits of HMAC-SHA256, in base64url. */
function hashUnder(key: KeyObject, subject: string): string {
  return createHmac('sha256', key).update(`subject\0${subject}`).digest('base64url').slice(0, 22)
}

/** The value as the text that names a person; undefined for a value that names none. */
function subjectText(json: Buffer, start: number, end: number): string | undefined {
  const first = json[start] as number
  if (first === quote) return textOf(json, start, end) || undefined
  const isNumber = first === 0x2d || (first >= 0x30 && first <= 0x39)
  return isNumber ? json.toString('latin1', start, end) : undefined
}
