import { Readable } from 'node:stream'

/** Bytes that wait for a reader before it gets only the newest state. */
const bufferBytes = 16 * 1024
/** One event as bytes, with its number: a reader gets them in this order. */
export interface Frame {
  readonly n: number
  readonly text: string
}

/** Attempts that wait for a slow reader; the oldest go first. */
const mostWaiting = 50

/**
 * Server-sent events for one reader. A reader that is slow gets the newest state of each kind and the newest attempts when
 * it reads again: frames replace each other while they wait, so the memory of a stream is bounded.
 */
export class LiveStream extends Readable {
  /** The newest frame of each kind. */
  readonly #newest = new Map<string, Frame>()
  #attempts: Frame[] = []
  #wantsMore = false
  #isOver = false

  constructor(onEnd: () => void) {
    super({ highWaterMark: bufferBytes })
    this.once('close', onEnd)
  }

  /** Shows a state, in place of an earlier one of the same kind that was not sent yet. */
  show(kind: string, frame: Frame): void {
    this.#newest.set(kind, frame)
    this.#flush()
  }

  /** Adds an attempt. */
  add(frame: Frame): void {
    this.#attempts.push(frame)
    if (this.#attempts.length > mostWaiting) this.#attempts.shift()
    this.#flush()
  }

  /** Ends the stream behind the frames that were sent. */
  finish(): void {
    if (this.#isOver || this.destroyed) return
    this.#isOver = true
    this.push(null)
  }

  override _read(): void {
    this.#wantsMore = true
    this.#flush()
  }

  #flush(): void {
    if (!this.#wantsMore || this.#isOver || this.destroyed) return
    if (this.#newest.size === 0 && this.#attempts.length === 0) return
    const frames = [...this.#newest.values(), ...this.#attempts].sort((a, b) => a.n - b.n)
    this.#newest.clear()
    this.#attempts = []
    // Asked again by `_read` once the reader has taken it.
    this.#wantsMore = false
    this.push(frames.map(({ text }) => text).join(''))
  }
}
