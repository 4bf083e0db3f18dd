/**
 * Rows go to the server as one array per column, unnested there: one round trip for any number of them. The arrays are
 * written here rather than by the driver, which runs two regular expressions over every element, numbers included.
 */

/** A bigint[] or integer[] parameter. Fractions are rounded: clocks measure them, columns do not take them. */
export function integers(values: readonly (number | null)[]): string {
  let text = '{'
  for (let i = 0; i < values.length; i++) {
    if (i > 0) text += ','
    const value = values[i] as number | null
    text += value === null ? 'null' : Math.round(value)
  }
  return `${text}}`
}

/** A boolean[] parameter. */
export function booleans(values: readonly boolean[]): string {
  return `{${values.join(',')}}`
}

/** A text[] parameter. */
export function texts(values: readonly (string | null)[]): string {
  let text = '{'
  for (let i = 0; i < values.length; i++) {
    if (i > 0) text += ','
    const value = values[i] as string | null
    if (value === null) text += 'null'
    else text += special.test(value) ? `"${value.replace(quoted, '\\$&')}"` : `"${value}"`
  }
  return `${text}}`
}

const special = /["\\]/
const quoted = /["\\]/g

/**
 * Several byte strings as one binary parameter and the place of each in it (from 1; a missing one has none). Written as
 * a bytea[] every byte would travel as two hex digits, escaped and parsed on both sides.
 */
export interface PackedBytes {
  readonly bytes: Buffer
  readonly starts: string
  readonly lengths: string
}

/** Packs byte strings for `substring($bytes from start for length)`. */
export function packed(values: readonly (Uint8Array | null)[]): PackedBytes {
  const starts: (number | null)[] = []
  const lengths: (number | null)[] = []
  const parts: Uint8Array[] = []
  let at = 1
  for (const value of values) {
    starts.push(value === null ? null : at)
    lengths.push(value === null ? null : value.byteLength)
    if (value === null || value.byteLength === 0) continue
    parts.push(value)
    at += value.byteLength
  }
  return { bytes: Buffer.concat(parts), starts: integers(starts), lengths: integers(lengths) }
}
