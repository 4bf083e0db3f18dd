import type { RowPlace } from '../store/lanes.ts'

/** The order of a queue: by class, then by due instant, then by message. */
export function isBefore(a: RowPlace, b: RowPlace): boolean {
  if (a.class !== b.class) return a.class < b.class
  return a.dueAt !== b.dueAt ? a.dueAt < b.dueAt : a.message < b.message
}

interface Rung {
  readonly place: RowPlace
  /** Rows behind the rung before it, up to and including this place. */
  rows: number
}

/**
 * Places of a long queue, one for each thousand rows or so, with the number of rows between them. The place of any delivery is
 * then a sum over the rungs in front of it and a count between two of them, however long the queue is.
 */
export class Ladder {
  readonly #rungs: Rung[] = []

  /** Adds the next rung: `rows` lie between it and the one before. */
  add(place: RowPlace, rows: number): void {
    this.#rungs.push({ place, rows })
  }

  get size(): number {
    return this.#rungs.length
  }

  /** A row came to this place, or with -1 left it. Rows behind the last rung are counted from that rung. */
  change(place: RowPlace, by: number): void {
    const rung = this.#rungs[this.#firstBehind(place)]
    if (rung !== undefined) rung.rows = Math.max(0, rung.rows + by)
  }

  /** The last rung in front of a place, and the number of rows up to it. */
  below(place: RowPlace): { readonly from: RowPlace | null; readonly rows: number } {
    const end = this.#firstBehind(place)
    let rows = 0
    for (let i = 0; i < end; i++) rows += (this.#rungs[i] as Rung).rows
    return { from: this.#rungs[end - 1]?.place ?? null, rows }
  }

  /** The first rung at or behind a place; the number of rungs when there is none. */
  #firstBehind(place: RowPlace): number {
    let [low, high] = [0, this.#rungs.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (isBefore((this.#rungs[middle] as Rung).place, place)) low = middle + 1
      else high = middle
    }
    return low
  }
}
