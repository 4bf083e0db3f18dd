import { present } from '../domain/invariant.ts'
import type { Outgoing, Store, StoredMessage } from '../store/store.ts'

/** Names a message in the form of one delivery. */
interface BodyKey {
  readonly message: number
  /** Null for the message's own body. */
  readonly variant: number | null
}

/**
 * A cache of messages that are about to be sent. A message with twelve endpoints is read once, not twelve times, because its
 * deliveries leave at about the same time.
 */
export class Bodies {
  readonly #store: Pick<Store, 'loadMessages' | 'loadVariants'>
  readonly #limitBytes: number
  /** Sorted by insertion: the first is the oldest. */
  readonly #kept = new Map<number | string, Outgoing>()
  /** The cached variants of a message. */
  readonly #variants = new Map<number, Set<number>>()
  #bytes = 0
  /** The reads under way, each with the messages that were forgotten since it began. */
  readonly #reads = new Set<{ readonly forgotten: Set<number>; isVoid: boolean }>()

  constructor(store: Pick<Store, 'loadMessages' | 'loadVariants'>, limitBytes: number) {
    this.#store = store
    this.#limitBytes = limitBytes
  }

  get(key: BodyKey): Outgoing | undefined {
    return this.#kept.get(nameOf(key.message, key.variant))
  }

  /** Loads messages; those that no longer exist are missing from the answer. */
  async load(keys: readonly BodyKey[]): Promise<Loaded> {
    const found = new Map<number | string, Outgoing>()
    for (let wanted = keys; wanted.length > 0; ) {
      const { result: loaded, isSure } = await this.#during(() => this.#read(wanted))
      // The store may have read a message that was forgotten meanwhile before it changed: it is read again.
      for (const message of loaded.filter(({ key }) => isSure(key))) {
        found.set(nameOf(message.key, message.variant), message)
        this.#keep(message)
      }
      wanted = wanted.filter(({ message }) => !isSure(message))
    }
    return { get: ({ message, variant }) => found.get(nameOf(message, variant)) }
  }

  /** Caches the messages that another read brings along, but for those that are forgotten meanwhile. */
  async bringAlong<T extends { readonly messages: readonly Outgoing[] }>(read: () => Promise<T>): Promise<T> {
    const { result, isSure } = await this.#during(read)
    for (const message of result.messages) if (isSure(message.key)) this.#keep(message)
    return result
  }

  /** Runs a read; answers whether a message that it brings was not forgotten since it began. */
  async #during<T>(read: () => Promise<T>): Promise<{ result: T; isSure: (message: number) => boolean }> {
    const reading = { forgotten: new Set<number>(), isVoid: false }
    this.#reads.add(reading)
    const result = await read().finally(() => this.#reads.delete(reading))
    return { result, isSure: (message) => !reading.isVoid && !reading.forgotten.has(message) }
  }

  async #read(keys: readonly BodyKey[]): Promise<Outgoing[]> {
    const messages = new Set<number>()
    const variants = new Map<string, { message: number; variant: number }>()
    for (const { message, variant } of keys) {
      if (variant === null) messages.add(message)
      else variants.set(`${message}.${variant}`, { message, variant })
    }
    const loaded = messages.size > 0 ? await this.#store.loadMessages([...messages]) : []
    if (variants.size > 0) loaded.push(...(await this.#store.loadVariants([...variants.values()])))
    return loaded
  }

  /** Caches a message that was just stored and is sent at once, so that it need not be read. */
  expect({ publication, identity }: StoredMessage): void {
    const { eventType, contentType, headers = null, trace = null, arrivedHeaders = null, body } = publication
    // A copy: the body may be a small part of a buffer that was read from a socket, all of which would stay in memory.
    this.#keep({
      ...identity,
      eventType,
      contentType,
      headers,
      trace,
      arrivedHeaders,
      body: new Uint8Array(body),
      variant: null,
      signature: null,
    })
  }

  /** Drops messages that must not be sent any more, in every form; all messages when none are named. */
  forget(keys?: Iterable<number>): void {
    if (keys === undefined) {
      for (const read of this.#reads) read.isVoid = true
      this.#kept.clear()
      this.#variants.clear()
      this.#bytes = 0
      return
    }
    for (const key of keys) {
      for (const read of this.#reads) read.forgotten.add(key)
      const own = this.#kept.get(key)
      if (own !== undefined) this.#drop(own)
      for (const variant of [...(this.#variants.get(key) ?? [])]) {
        this.#drop(present(this.#kept.get(nameOf(key, variant)), 'each listed variant is kept'))
      }
    }
  }

  #keep(message: Outgoing): void {
    const { key, variant } = message
    const name = nameOf(key, variant)
    if (this.#kept.has(name)) return
    this.#kept.set(name, message)
    this.#bytes += sizeOf(message)
    if (variant !== null) {
      const variants = this.#variants.get(key)
      if (variants) variants.add(variant)
      else this.#variants.set(key, new Set([variant]))
    }
    for (const oldest of this.#kept.values()) {
      if (this.#bytes <= this.#limitBytes) break
      this.#drop(oldest)
    }
  }

  #drop(message: Outgoing): void {
    const { key, variant } = message
    this.#kept.delete(nameOf(key, variant))
    this.#bytes -= sizeOf(message)
    if (variant === null) return
    const variants = this.#variants.get(key)
    variants?.delete(variant)
    if (variants?.size === 0) this.#variants.delete(key)
  }
}

/** The messages of one `load`. */
export interface Loaded {
  get(key: BodyKey): Outgoing | undefined
}

/** A number for the message itself, so that a plain delivery allocates no name. */
function nameOf(message: number, variant: number | null): number | string {
  return variant === null ? message : `${message}.${variant}`
}

/** Besides the body, a cached message costs about 500 bytes of objects. */
function sizeOf(message: Outgoing): number {
  return message.body.byteLength + (message.arrivedHeaders === null ? 500 : 8700)
}
