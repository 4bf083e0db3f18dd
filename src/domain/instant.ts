import type { EpochMs } from './clock.ts'

/**
 * Reads an instant as RFC 3339 writes it; NaN when there is no such one. `Date.parse` alone would take February 31 for
 * the third of March.
 */
export function parseInstant(text: string): EpochMs {
  const [, year, month, day] = /^(\d{4})-(\d\d)-(\d\d)/.exec(text) ?? []
  const days = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()
  return Number(day) <= days ? Date.parse(text) : Number.NaN
}
