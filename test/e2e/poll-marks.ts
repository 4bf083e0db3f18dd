const everyMs = 2

/**
 * Knows an instant before which everything that lay in the kernel has been handed to this process. A busy machine makes a
 * receiver read late, and what came evenly then looks like a burst; with this, an oracle of rates knows for each request
 * not only when it was read but also since when it can have been there, and does not count the receiver's own delay.
 *
 * The event loop runs timers, then asks the kernel what there is and hands all of it out, then runs immediates. So when
 * an immediate runs that a timer asked for, all that had come by the instant of that timer has been handed out.
 */
export class PollMarks {
  #lastPollBegan = performance.now()
  readonly #timer: NodeJS.Timeout

  constructor() {
    this.#timer = setInterval(() => {
      const began = performance.now()
      setImmediate(() => {
        this.#lastPollBegan = began
      })
    }, everyMs)
  }

  /** Whatever is handed out from now on came after this instant. */
  get lastPollBegan(): number {
    return this.#lastPollBegan
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
