import { present } from './invariant.ts'
import { Queue } from './queue.ts'

/**
 * Work of many tenants, first in first out within one of them. Tenants take turns, an item a turn, so that a tenant with
 * 100,000 items costs another one turn. Each step takes the same time, however many tenants and items there are.
 */
export class FairQueue<T> {
  readonly #tenants = new Map<number, Queue<T>>()
  /** The tenants with items, in the order of their turns. */
  readonly #ring = new Queue<number>()
  #size = 0

  get size(): number {
    return this.#size
  }

  /** The number of tenants with items. */
  get tenants(): number {
    return this.#tenants.size
  }

  /** Whether the tenant has items. */
  has(tenant: number): boolean {
    return this.#tenants.has(tenant)
  }

  push(tenant: number, item: T): void {
    let items = this.#tenants.get(tenant)
    if (items === undefined) {
      items = new Queue()
      this.#tenants.set(tenant, items)
      this.#ring.push(tenant)
    }
    items.push(item)
    this.#size++
  }

  /** Takes the next item of the tenant whose turn it is. */
  shift(): T | undefined {
    return this.shiftSome(1)[0]
  }

  /** Takes up to `atMost` items of the tenant whose turn it is. */
  shiftSome(atMost: number): T[] {
    const tenant = this.#ring.shift()
    if (tenant === undefined) return []
    const items = present(this.#tenants.get(tenant), 'a tenant in the ring has items')
    const taken: T[] = []
    while (taken.length < atMost && items.size > 0)
      taken.push(present(items.shift(), 'a queue with a size has an item'))
    this.#size -= taken.length
    if (items.size > 0) this.#ring.push(tenant)
    else this.#tenants.delete(tenant)
    return taken
  }
}
