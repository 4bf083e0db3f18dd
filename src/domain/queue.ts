/** First in, first out, with both ends cheap: an array that forgets its front in bulk. */
export class Queue<T> {
  #items: (T | undefined)[] = []
  #head = 0

  get size(): number {
    return this.#items.length - this.#head
  }

  push(item: T): void {
    this.#items.push(item)
  }

  /** Puts an item back in front. */
  unshift(item: T): void {
    if (this.#head > 0) this.#items[--this.#head] = item
    else this.#items.unshift(item)
  }

  shift(): T | undefined {
    if (this.#head === this.#items.length) return undefined
    const item = this.#items[this.#head]
    this.#items[this.#head++] = undefined
    // Half of the array is spent: moving the rest costs less than it has already saved.
    if (this.#head > 32 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }

  clear(): T[] {
    const rest = this.#items.slice(this.#head) as T[]
    this.#items = []
    this.#head = 0
    return rest
  }
}
