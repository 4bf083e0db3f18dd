import type { Share } from '../domain/app-shares.ts'

/** The limits of an application that its workers share: attempts in 1,000 seconds, and attempts under way at once. */
export interface OfBoth<T> {
  readonly rate: T
  readonly slots: T
}

/** A worker's question for its shares of an application's limits. */
export interface ShareAsk {
  readonly app: number
  /** The most that it could use: 0 for nothing, `anyNumber` for all that it gets. */
  readonly wants: OfBoth<number>
  /** The most that it uses from now on, until it is answered. */
  readonly uses: OfBoth<number>
  /** It has no lane of the application any more, and gives up all. */
  readonly leaves?: boolean
}

export interface ShareAnswer {
  readonly app: number
  /** Null where the application has no such limit. */
  readonly shares: OfBoth<Share | null>
  /** Whether other workers hold or want any of it. */
  readonly isShared: boolean
}

/** More than any limit is. */
export const anyNumber = 1_000_000_000_000

/** The limits of applications, divided among workers by need. */
export interface AppShares {
  /**
   * Answers how much a worker holds of the limits of applications. At every moment, the shares of living workers add up to a
   * limit at most; only a worker itself lowers its share, by using less before it asks. Undefined: the worker was declared dead.
   */
  shareLimits(worker: number, asks: readonly ShareAsk[]): Promise<ShareAnswer[] | undefined>
}
