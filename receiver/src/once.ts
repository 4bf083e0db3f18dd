/** The answer to a claim: this caller works (`claimed`), the message was handled before, or another caller works on it. */
export type Claim = 'claimed' | 'handled' | { readonly busyMs: number }

/**
 * Remembers which messages were handled. An entry of a store is a lease with a token, or a handled message; an entry whose
 * time is over counts as none. All methods are atomic, also between processes.
 */
export interface OnceStore {
  /** Leases the message to the token, unless it is leased or handled. `busyMs` is the rest of the other lease. */
  claim(id: string, token: string, leaseMs: number): Promise<Claim>
  /** Remembers the message as handled, also when another receiver has the lease by now: its work was done. */
  complete(id: string, keepMs: number): Promise<void>
  /** Ends the lease, if the token still has it. */
  release(id: string, token: string): Promise<void>
}

/** How the work of a message ended. */
export type Outcome<T> =
  | { readonly outcome: 'handled'; readonly value: T }
  /** The message was handled before; nothing was done. */
  | { readonly outcome: 'duplicate' }
  /** Another caller works on the message; nothing was done. */
  | { readonly outcome: 'busy'; readonly retryAfterMs: number }

/** Does the work of a message and remembers it in one transaction of your database. */
export interface Transaction<Tx> {
  run<T>(id: string, work: (tx: Tx) => T | Promise<T>): Promise<Outcome<T>>
}

export interface OnceOptions {
  /** How long a message is reserved for the caller that works on it; 30 s by default. Longer than the longest work. */
  readonly leaseSeconds?: number | undefined
  /** How long a handled message is remembered; 30 days by default. */
  readonly keepSeconds?: number | undefined
}

export const defaultLeaseSeconds = 30
export const defaultKeepSeconds = 30 * 86_400

/**
 * Does the work of a message once: claims the message, works, and remembers it after the work has succeeded. Work that
 * fails ends the claim, and its error is thrown. The claim of a process that dies ends with the lease, and the next delivery
 * works again. So the work is done at least once, and a second time only after a crash or beyond the lease.
 */
export async function handleOnce<T>(
  store: OnceStore,
  id: string,
  work: () => T | Promise<T>,
  { leaseSeconds = defaultLeaseSeconds, keepSeconds = defaultKeepSeconds }: OnceOptions = {},
): Promise<Outcome<T>> {
  const token = crypto.randomUUID()
  const claim = await store.claim(id, token, leaseSeconds * 1000)
  if (claim === 'handled') return { outcome: 'duplicate' }
  if (claim !== 'claimed') return { outcome: 'busy', retryAfterMs: claim.busyMs }
  let value: T
  try {
    value = await work()
  } catch (error) {
    // The error of the work is the one to report. A lease that cannot be released ends by itself.
    await store.release(id, token).catch(() => {})
    throw error
  }
  await store.complete(id, keepSeconds * 1000)
  return { outcome: 'handled', value }
}

export interface MemoryStoreOptions {
  /** Most messages that are remembered; the oldest is forgotten first. 100,000 by default. */
  readonly maxMessages?: number | undefined
  /** The current time in milliseconds; `Date.now` by default. */
  readonly now?: (() => number) | undefined
}

/** The wait that is asked of a sender when the end of the other work is not known. */
export const shortWaitMs = 1000

/** A store in the memory of this process: for one process, and forgotten when it ends. */
export function memoryStore({ maxMessages = 100_000, now = Date.now }: MemoryStoreOptions = {}): OnceStore {
  const leases = new Map<string, { readonly token: string; readonly until: number }>()
  /** In the order in which they were handled. */
  const handled = new Map<string, number>()
  return {
    async claim(id, token, leaseMs) {
      const at = now()
      if ((handled.get(id) ?? 0) > at) return 'handled'
      const other = leases.get(id)
      if (other !== undefined && other.until > at) return { busyMs: other.until - at }
      if (other === undefined && leases.size >= maxMessages) {
        for (const [each, { until }] of leases) if (until <= at) leases.delete(each)
        if (leases.size >= maxMessages) return { busyMs: shortWaitMs }
      }
      leases.set(id, { token, until: at + leaseMs })
      return 'claimed'
    },
    async complete(id, keepMs) {
      leases.delete(id)
      handled.delete(id)
      handled.set(id, now() + keepMs)
      if (handled.size > maxMessages) handled.delete(handled.keys().next().value as string)
    },
    async release(id, token) {
      if (leases.get(id)?.token === token) leases.delete(id)
    },
  }
}

export function isPromise<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as PromiseLike<T> | null | undefined)?.then === 'function'
}
