/** Does the work of each caller one piece after the other. Pieces of different callers do not wait for each other. */
export class OneByOne {
  readonly #last = new Map<string, Promise<unknown>>()

  /** Does the work once all earlier work under the same key has ended, well or not. */
  do<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key)
    const mine = before === undefined ? work() : before.then(work, work)
    this.#last.set(key, mine)
    const forget = () => {
      if (this.#last.get(key) === mine) this.#last.delete(key)
    }
    void mine.then(forget, forget)
    return mine
  }

  /** Keys with work under way. */
  get size(): number {
    return this.#last.size
  }
}
