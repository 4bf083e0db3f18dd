import type { EpochMs } from '../domain/clock.ts'

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
