/**
 * The split of an attempt's time. The parts follow each other; the rest of the attempt is the answer after its first byte,
 * or the wait for an answer that never came. A part that did not take place is null: a connection that was open already has
 * none of the first three, an address needs no DNS, and `http` has no TLS. A part that failed counts up to its failure.
 */
export interface Timings {
  /** Whether the attempt used a connection that was open already. */
  readonly reused: boolean
  readonly dnsMs: number | null
  readonly connectMs: number | null
  readonly tlsMs: number | null
  /** From the open connection to the first byte of the answer; null without an answer. */
  readonly firstByteMs: number | null
  /**
   * The time before the first part: above 0 when the receiver had closed the connection that the attempt found, so that it
   * opened another one. It is not stored.
   */
  readonly beforeMs?: number
}

/**
 * The timings in the form in which they are stored: whole milliseconds, `dns,connect,tls,firstByte`, or only the first byte
 * on a connection that was open already. Most attempts are such, and most are stored in one or two characters.
 */
export function writeTimings({ reused, dnsMs, connectMs, tlsMs, firstByteMs }: Timings): string {
  if (reused) return whole(firstByteMs)
  return `${whole(dnsMs)},${whole(connectMs)},${whole(tlsMs)},${whole(firstByteMs)}`
}

/** The timings in a stored text; null for an attempt that has none. */
export function readTimings(text: string | null): Timings | null {
  if (text === null) return null
  const parts = text.split(',').map((part) => (part === '' ? null : Number(part)))
  if (parts.length === 1) {
    return { reused: true, dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: parts[0] ?? null }
  }
  const [dnsMs = null, connectMs = null, tlsMs = null, firstByteMs = null] = parts
  return { reused: false, dnsMs, connectMs, tlsMs, firstByteMs }
}

/** The timings in words, such as `dns 3, connect 12, tls 40, first byte 105`, all in milliseconds. */
export function describeTimings({ reused, dnsMs, connectMs, tlsMs, firstByteMs }: Timings): string {
  const parts: [string, number | null][] = [
    ['dns', dnsMs],
    ['connect', connectMs],
    ['tls', tlsMs],
    ['first byte', firstByteMs],
  ]
  const known = parts.flatMap(([name, ms]) => (ms === null ? [] : [`${name} ${Math.round(ms)}`]))
  return [...(reused ? ['reused'] : []), ...known].join(', ')
}

function whole(ms: number | null): string {
  return ms === null ? '' : String(Math.round(ms))
}
