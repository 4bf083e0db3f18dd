const versionAndFirstDigit = Buffer.from('HTTP/1.1 1')
/** Where the last digit of the status stands in a status line. */
const lastDigitAt = 'HTTP/1.1 10'.length
const [zero, two, lineFeed, carriageReturn] = [0x30, 0x32, 0x0a, 0x0d] as const

/** The part of an answer that the next byte belongs to: `start` is between two heads, `rest` the remainder of an interim head. */
type HeadPart = 'start' | 'line' | 'rest' | 'final'

/**
 * Has undici take a `100 Continue` that it did not ask for, as RFC 9110, 15.2 demands: undici 8 destroys the socket at a
 * 100, and takes every other interim answer. So the last digit of the status is changed before undici parses it, which
 * makes it a 102; what limits and counts interim answers holds for it, too.
 *
 * It looks at the bytes of a socket from the request on, up to the first digit of a final status: ten bytes of most
 * answers. Nothing is kept of them, so an answer may be cut into packets anywhere.
 */
export class InterimAnswers {
  #part: HeadPart = 'final'
  /** The bytes of the status line that were as expected. */
  #matched = 0
  /** The bytes of an empty line, at the end of a head, that were seen in a row. */
  #ending = 0

  /** A request leaves: its answer comes next. */
  expect(): void {
    this.#part = 'start'
  }

  /** Bytes came, which undici has not seen yet. */
  pass(bytes: Buffer): void {
    for (let i = 0; this.#part !== 'final' && i < bytes.length; i++) {
      const byte = bytes[i] as number
      if (this.#part === 'rest') this.#passRest(byte)
      else if (this.#passLine(byte)) bytes[i] = two
    }
  }

  /** Answers whether this byte is the last digit of a 100. */
  #passLine(byte: number): boolean {
    if (this.#part === 'start') {
      // The parser passes over empty lines here.
      if (byte === carriageReturn || byte === lineFeed) return false
      this.#part = 'line'
      this.#matched = 0
    }
    const at = this.#matched++
    if (at < versionAndFirstDigit.length) {
      if (byte !== versionAndFirstDigit[at]) this.#part = 'final'
      return false
    }
    // A 1xx. Its head is passed over, because a 100 may follow.
    if (at < lastDigitAt && byte === zero) return false
    this.#part = 'rest'
    this.#ending = 0
    return at === lastDigitAt && byte === zero
  }

  #passRest(byte: number): void {
    const expected = this.#ending % 2 === 0 ? carriageReturn : lineFeed
    this.#ending = byte === expected ? this.#ending + 1 : byte === carriageReturn ? 1 : 0
    if (this.#ending === 4) this.#part = 'start'
  }
}
