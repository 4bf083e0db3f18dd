import type { Outgoing, Store } from '../store/store.ts'

/**
 * The messages about to be sent, kept while there is room. A message with twelve subscribers is read once, not twelve
 * times, because its deliveries leave at about the same time.
 */
export class Bodies {
  readonly #store: Pick<Store, 'loadMessages'>
  readonly #limitBytes: number
  /** In order of last insertion: the first is the oldest. */
  readonly #kept = new Map<number, Outgoing>()
  #bytes = 0

  constructor(store: Pick<Store, 'loadMessages'>, limitBytes: number) {
    this.#store = store
    this.#limitBytes = limitBytes
  }

  get(key: number): Outgoing | undefined {
    return this.#kept.get(key)
  }

  /** Fetches messages; those that no longer exist are missing from the answer. */
  async load(keys: ReadonlySet<number>): Promise<Map<number, Outgoing>> {
    const found = new Map<number, Outgoing>()
    for (const message of await this.#store.loadMessages([...keys])) {
      found.set(message.key, message)
      this.#keep(message)
    }
    return found
  }

  /** Drops messages that must not be sent any more; all that are kept when none are named. */
  forget(keys: Iterable<number> = [...this.#kept.keys()]): void {
    for (const key of keys) {
      const kept = this.#kept.get(key)
      if (kept === undefined) continue
      this.#kept.delete(key)
      this.#bytes -= sizeOf(kept)
    }
  }

  #keep(message: Outgoing): void {
    if (this.#kept.has(message.key)) return
    this.#kept.set(message.key, message)
    this.#bytes += sizeOf(message)
    for (const [key, oldest] of this.#kept) {
      if (this.#bytes <= this.#limitBytes) break
      this.#kept.delete(key)
      this.#bytes -= sizeOf(oldest)
    }
  }
}

/** Besides the body, a kept message costs about 500 bytes of objects. */
function sizeOf(message: Outgoing): number {
  return message.body.byteLength + 500
}
