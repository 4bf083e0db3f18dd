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

  /** What was kept; undefined when the body was empty. */
  bytes(): Uint8Array | undefined {
    return this.#length === 0 ? undefined : this.#bytes?.subarray(0, this.#length)
  }
}
