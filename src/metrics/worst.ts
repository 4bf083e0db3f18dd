/** Keeps the few items with the highest figures of any number. */
export class Worst<Item> {
  /** The highest first. */
  readonly list: Item[] = []
  readonly #kept: number
  readonly #figure: (item: Item) => number

  constructor(kept: number, figure: (item: Item) => number) {
    this.#kept = kept
    this.#figure = figure
  }

  offer(item: Item): void {
    const { list } = this
    const figure = this.#figure(item)
    const last = list.at(-1)
    if (list.length >= this.#kept && (last === undefined || this.#figure(last) >= figure)) return
    let [low, high] = [0, list.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#figure(list[middle] as Item) >= figure) low = middle + 1
      else high = middle
    }
    list.splice(low, 0, item)
    if (list.length > this.#kept) list.pop()
  }
}
