/** Where things lie in bytes that are known to be JSON. Nothing is checked here, and nothing is built. */

export const quote = 0x22
export const openBrace = 0x7b
export const openBracket = 0x5b
const closeBrace = 0x7d
const closeBracket = 0x5d
const backslash = 0x5c
const comma = 0x2c

/** The first byte at or behind `i` that is not white space. */
export function afterSpace(json: Buffer, i: number): number {
  while ((json[i] as number) <= 0x20) i++
  return i
}

/** The byte behind the string that begins at `i`. */
function afterString(json: Buffer, i: number): number {
  for (i++; json[i] !== quote; i++) if (json[i] === backslash) i++
  return i + 1
}

/** The byte behind the value that begins at `i`. */
export function afterValue(json: Buffer, i: number): number {
  const first = json[i]
  if (first === quote) return afterString(json, i)
  if (first !== openBrace && first !== openBracket) {
    while (i < json.length && !endsScalar(json[i] as number)) i++
    return i
  }
  let depth = 0
  for (; ; i++) {
    const byte = json[i]
    if (byte === quote) i = afterString(json, i) - 1
    else if (byte === openBrace || byte === openBracket) depth++
    else if ((byte === closeBrace || byte === closeBracket) && --depth === 0) return i + 1
  }
}

function endsScalar(byte: number): boolean {
  return byte <= 0x20 || byte === comma || byte === closeBrace || byte === closeBracket
}

/** A member of an object, or an element of an array, which has no name. */
export interface Part {
  /** What it is called, or the number of its place. */
  readonly name: string
  /** Where its name begins, or the value of an element. */
  readonly start: number
  /** Where the name ends; as `start` for an element. */
  readonly nameEnd: number
  readonly value: number
  readonly end: number
}

/** The members or elements of the container that begins at `at`, in order; `end` is the byte behind it. */
export function partsOf(json: Buffer, at: number, withNames = true): { readonly parts: Part[]; readonly end: number } {
  const isObject = json[at] === openBrace
  const parts: Part[] = []
  let i = afterSpace(json, at + 1)
  if (json[i] === (isObject ? closeBrace : closeBracket)) return { parts, end: i + 1 }
  for (;;) {
    const start = i
    const nameEnd = isObject ? afterString(json, i) : i
    const value = isObject ? afterSpace(json, afterSpace(json, nameEnd) + 1) : i
    const end = afterValue(json, value)
    parts.push({
      name: !withNames ? '' : isObject ? textOf(json, start, nameEnd) : String(parts.length),
      start,
      nameEnd,
      value,
      end,
    })
    i = afterSpace(json, end)
    if (json[i] !== comma) return { parts, end: i + 1 }
    i = afterSpace(json, i + 1)
  }
}

/** What the string between two quotes says, however it is escaped. */
export function textOf(json: Buffer, start: number, end: number): string {
  const written = json.toString('utf8', start, end)
  return written.includes('\\') ? JSON.parse(written) : written.slice(1, -1)
}
