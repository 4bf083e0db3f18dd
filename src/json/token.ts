import { AppError } from '../domain/app-error.ts'

// Each file has its own: imported, these constants make a scan a fifth slower.
const quote = 0x22
const backslash = 0x5c
const minus = 0x2d
const zero = 0x30
const nine = 0x39

/** The first byte at or behind `i` that is not white space; the length of the body when there is none. */
export function afterSpace(body: Buffer, i: number): number {
  const length = body.length
  while (i < length) {
    const byte = body[i] as number
    if (byte > 0x20 || (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)) return i
    i++
  }
  return i
}

/** The byte behind the string, number or literal that begins at `i`. Throws when none begins there. */
export function afterScalar(body: Buffer, i: number): number {
  const first = i < body.length ? (body[i] as number) : 0
  if (first === quote) return afterString(body, i)
  if (first === minus || (first >= zero && first <= nine)) return afterNumber(body, i)
  if (first === 0x74) return afterWord(body, i, 'true')
  if (first === 0x66) return afterWord(body, i, 'false')
  if (first === 0x6e) return afterWord(body, i, 'null')
  throw unexpected(body, i)
}

/** The byte behind the string that begins at `i`. */
export function afterString(body: Buffer, i: number): number {
  if (body[i] !== quote) throw unexpected(body, i)
  const length = body.length
  for (i++; i < length; i++) {
    const byte = body[i] as number
    if (byte === quote) return i + 1
    if (byte < 0x20) throw unexpected(body, i)
    if (byte === backslash) i = lastOfEscape(body, i)
  }
  throw unexpected(body, length)
}

function lastOfEscape(body: Buffer, i: number): number {
  i++
  switch (body[i]) {
    case 0x22: // "
    case 0x5c: // \
    case 0x2f: // /
    case 0x62: // b
    case 0x66: // f
    case 0x6e: // n
    case 0x72: // r
    case 0x74: // t
      return i
    case 0x75: // u
      for (let n = 1; n <= 4; n++) if (!isHexDigit(body[i + n])) throw unexpected(body, i + n)
      return i + 4
    default:
      throw unexpected(body, i)
  }
}

function afterNumber(body: Buffer, i: number): number {
  if (body[i] === minus) i++
  // No digit may follow a leading zero.
  i = body[i] === zero ? i + 1 : afterDigits(body, i)
  if (body[i] === 0x2e) i = afterDigits(body, i + 1)
  if (body[i] === 0x65 || body[i] === 0x45) {
    i++
    if (body[i] === 0x2b || body[i] === minus) i++
    i = afterDigits(body, i)
  }
  return i
}

/** Behind one or more digits. */
function afterDigits(body: Buffer, i: number): number {
  if (!isDigit(body[i])) throw unexpected(body, i)
  do i++
  while (isDigit(body[i]))
  return i
}

function afterWord(body: Buffer, i: number, word: string): number {
  for (let n = 0; n < word.length; n++) if (body[i + n] !== word.charCodeAt(n)) throw unexpected(body, i + n)
  return i + word.length
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= zero && byte <= nine
}

function isHexDigit(byte: number | undefined): boolean {
  return isDigit(byte) || (byte !== undefined && (byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66)
}

/** Says what stands where something else must. */
export function unexpected(body: Buffer, at: number): AppError {
  if (at >= body.length) {
    return new AppError('invalid_json', body.length === 0 ? 'The body is empty.' : 'The JSON text ends too early.')
  }
  const byte = body[at] as number
  const what = byte > 0x20 && byte < 0x7f ? `'${String.fromCharCode(byte)}'` : `0x${byte.toString(16).padStart(2, '0')}`
  return new AppError('invalid_json', `The body is not valid JSON: unexpected ${what} at byte ${at}.`)
}

/** The text of the string between two quotes, without escapes. */
export function textOf(body: Uint8Array, start: number, end: number): string {
  const written = Buffer.from(body.buffer, body.byteOffset + start, end - start).toString('utf8')
  return written.includes('\\') ? JSON.parse(written) : written.slice(1, -1)
}
