import type { EpochMs } from '../domain/clock.ts'
import type { ResponseHeaders } from '../domain/outcome.ts'
import { isSensitiveHeader } from '../wire/headers.ts'

/**
 * Keeps the first bytes of an answer's body, as they came: nothing is decoded, so no bomb can unfold. Bytes are copied,
 * because a chunk is a view of the 64 KiB its socket read. The copy grows by doubling, so that a body that drips byte by
 * byte costs no object per byte.
 */
export class Capture {
  #bytes: Buffer | undefined
  #length = 0
  readonly #limitBytes: number

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  /** Adds a chunk; false when the body has passed the limit and need not be read on. */
  add(chunk: Uint8Array): boolean {
    const room = this.#limitBytes - this.#length
    const taken = Math.min(chunk.length, room)
    const needed = this.#length + taken
    if (this.#bytes === undefined || needed > this.#bytes.length) {
      const grown = Buffer.allocUnsafeSlow(Math.min(this.#limitBytes, Math.max(needed, 2 * this.#length)))
      if (this.#bytes !== undefined) grown.set(this.#bytes.subarray(0, this.#length))
      this.#bytes = grown
    }
    this.#bytes.set(taken === chunk.length ? chunk : chunk.subarray(0, taken), this.#length)
    this.#length = needed
    return chunk.length <= room
  }

  /** The kept bytes; undefined when the body was empty. */
  bytes(): Uint8Array | undefined {
    if (this.#length === 0) return undefined
    return this.#bytes?.length === this.#length ? this.#bytes : this.#bytes?.subarray(0, this.#length)
  }
}

const maxHeaders = 64
const maxHeaderValue = 1024
const moreHeaders = '…'

/** The headers of an answer as undici gives them. */
type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>

/**
 * The headers of an answer that are kept with its attempt, as JSON text: at most 64, at most `limitBytes` of names and values,
 * and of each value the first 1,024 characters. A secret, by the name of its header, is not kept at all. Further headers are
 * counted under the name `…`, which no header can have.
 */
export function keptHeaders(headers: AnswerHeaders, limitBytes: number): string | undefined {
  if (limitBytes === 0) return undefined
  const kept: [string, string][] = []
  let bytes = 0
  let omitted = 0
  for (const [name, value] of Object.entries(headers)) {
    const text = keptValue(name, value)
    const size = name.length + Buffer.byteLength(text)
    if (kept.length === maxHeaders || bytes + size > limitBytes) {
      omitted++
      continue
    }
    kept.push([name, text])
    bytes += size
  }
  if (omitted > 0) kept.push([moreHeaders, `${omitted} more`])
  return JSON.stringify(Object.fromEntries(kept) satisfies ResponseHeaders)
}

/** Longer texts are not remembered: a target may be one of thousands. */
const maxRemembered = 1024

/** The kept headers of one receiver's answers. Most answers have the headers of the answer before, date included. */
export class KeptHeaders {
  #last: AnswerHeaders = {}
  #text: string | undefined

  of(headers: AnswerHeaders, limitBytes: number): string | undefined {
    if (this.#text !== undefined && isSame(headers, this.#last)) return this.#text
    const text = keptHeaders(headers, limitBytes)
    const isShort = text !== undefined && text.length <= maxRemembered
    this.#text = isShort ? text : undefined
    this.#last = isShort ? headers : {}
    return text
  }
}

/** Whether both hold the same single values in the same order. */
function isSame(some: AnswerHeaders, others: AnswerHeaders): boolean {
  const names = Object.keys(some)
  const otherNames = Object.keys(others)
  if (names.length !== otherNames.length) return false
  for (let i = 0; i < names.length; i++) {
    const name = names[i] as string
    if (name !== otherNames[i] || some[name] !== others[name]) return false
  }
  return true
}

function keptValue(name: string, value: string | string[] | undefined): string {
  if (isSensitiveHeader(name)) return '(hidden)'
  const text = Array.isArray(value) ? value.join(', ') : (value ?? '')
  return text.length <= maxHeaderValue ? text : `${text.slice(0, maxHeaderValue).toWellFormed()}…`
}

/** The three ways HTTP writes a date (RFC 9110, 5.6.7); Date.parse alone would take `1.5` for the fifth of January. */
const httpDates = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
]

/**
 * The wait a Retry-After header asks for, at most `capMs`: 0 when it names the past, undefined when it names nothing.
 * Of several headers the longest wait counts, so that none is undercut.
 */
export function readRetryAfter(header: string | string[] | undefined, now: EpochMs, capMs: number): number | undefined {
  if (header === undefined) return undefined
  if (Array.isArray(header)) {
    const waits = header.map((value) => readRetryAfter(value, now, capMs)).filter((wait) => wait !== undefined)
    return waits.length === 0 ? undefined : Math.max(...waits)
  }
  const waitMs = readWait(header.trim(), now)
  return waitMs === undefined ? undefined : Math.min(Math.max(0, Math.ceil(waitMs)), capMs)
}

function readWait(text: string, now: EpochMs): number | undefined {
  if (/^-?\d{1,20}(\.\d{1,20})?$/.test(text)) return Number(text) * 1000
  if (!httpDates.some((form) => form.test(text))) return undefined
  // The third form carries no zone and means GMT like the others.
  const at = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`)
  return Number.isNaN(at) ? undefined : at - now
}

/** The first 200 characters of a header, without characters that a terminal or a page would interpret. */
export function printable(header: string | string[] | undefined): string | undefined {
  const text = Array.isArray(header) ? header[0] : header
  return text?.slice(0, 200).replaceAll(/[^\x21-\x7e]/g, '?')
}
