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

/** A binary min-heap of items by a number given when they are put in. Equal numbers come out in no particular order. */
export class Heap<T> {
  readonly #at: number[] = []
  readonly #items: T[] = []

  get size(): number {
    return this.#items.length
  }

  /** The smallest number, or undefined when the heap is empty. */
  peek(): number | undefined {
    return this.#at[0]
  }

  push(at: number, item: T): void {
    let i = this.#items.length
    while (i > 0) {
      const parent = (i - 1) >> 1
      if ((this.#at[parent] as number) <= at) break
      this.#at[i] = this.#at[parent] as number
      this.#items[i] = this.#items[parent] as T
      i = parent
    }
    this.#at[i] = at
    this.#items[i] = item
  }

  /** Takes out the item with the smallest number, if that is at most `limit`. */
  popUntil(limit: number): T | undefined {
    const first = this.#at[0]
    if (first === undefined || first > limit) return undefined
    const item = this.#items[0] as T
    const at = this.#at.pop() as number
    const last = this.#items.pop() as T
    const size = this.#items.length
    if (size > 0) this.#sink(at, last, size)
    return item
  }

  #sink(at: number, item: T, size: number): void {
    let i = 0
    for (;;) {
      let child = 2 * i + 1
      if (child >= size) break
      if (child + 1 < size && (this.#at[child + 1] as number) < (this.#at[child] as number)) child++
      if ((this.#at[child] as number) >= at) break
      this.#at[i] = this.#at[child] as number
      this.#items[i] = this.#items[child] as T
      i = child
    }
    this.#at[i] = at
    this.#items[i] = item
  }
}
