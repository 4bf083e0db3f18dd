/** Bytes in memory on behalf of clients: bounded for each, and in all. */
export interface ShareLimits {
  readonly perClient: number
  readonly total: number
}

/**
 * Keeps account of bytes that are held for clients. When all of it is taken, clients that hold more than an equal share
 * are refused first; those below it still get theirs, up to twice the total.
 */
export class Shares {
  readonly #limits: ShareLimits
  readonly #held = new Map<string, number>()
  #total = 0

  constructor(limits: ShareLimits) {
    this.#limits = limits
  }

  /** Takes bytes for a client. The answer gives them back; undefined when the client may not have them. */
  take(client: string, bytes: number): (() => void) | undefined {
    const { perClient, total } = this.#limits
    const own = (this.#held.get(client) ?? 0) + bytes
    const all = this.#total + bytes
    // A single one that is larger than the share has to be possible, or it never is.
    if (own > perClient && own > bytes) return undefined
    const clients = this.#held.size + (this.#held.has(client) ? 0 : 1)
    if (all > total && this.#total > 0 && (own > total / clients || all > 2 * total)) return undefined
    this.#held.set(client, own)
    this.#total = all
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      this.#total -= bytes
      const left = (this.#held.get(client) ?? 0) - bytes
      if (left > 0) this.#held.set(client, left)
      else this.#held.delete(client)
    }
  }
}
