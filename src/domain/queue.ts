/** A first-in-first-out queue with both ends cheap: an array that forgets its front in bulk. */
export class Queue<T> {
  #items: (T | undefined)[] = []
  #front = 0

  get size(): number {
    return this.#items.length - this.#front
  }

  push(item: T): void {
    this.#items.push(item)
  }

  /** Puts an item back at the front. */
  unshift(item: T): void {
    if (this.#front > 0) this.#items[--this.#front] = item
    else this.#items.unshift(item)
  }

  shift(): T | undefined {
    if (this.#front === this.#items.length) return undefined
    const item = this.#items[this.#front]
    this.#items[this.#front++] = undefined
    // Half of the array is spent: moving the rest costs less than it has already saved.
    if (this.#front > 32 && this.#front * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#front)
      this.#front = 0
    }
    return item
  }

  clear(): T[] {
    const rest = this.#items.slice(this.#front) as T[]
    this.#items = []
    this.#front = 0
    return rest
  }
}
