import type { Clock, EpochMs } from '../../domain/clock.ts'
import type { Attempt } from '../../domain/delivery.ts'
import type { Meter } from '../../metrics/meter.ts'
import type { CommitObserver } from '../../metrics/observed-store.ts'
import type { Settlement, Store } from '../../store/store.ts'
import { serverScope } from '../history/rules.ts'

/** Attempts kept for one follower between two readings: the newest of the failed ones, and of the others. */
const keptOfEach = 10

/** An attempt by the keys of its parts. */
export interface RecentAttempt
  extends Omit<Attempt, 'response' | 'responseHeaders' | 'timings' | 'nextAt' | 'trigger'> {
  readonly app: number
  readonly outcome: 'delivered' | 'retry' | 'dead'
}

/** A sample of the attempts since the last reading. */
interface AttemptSample {
  readonly attempts: readonly RecentAttempt[]
  /** Attempts that there were. */
  readonly of: number
}

interface Kept {
  followers: number
  count: number
  delivered: RecentAttempt[]
  failed: RecentAttempt[]
}

/**
 * A sample of the attempts that this process records: of all, and of each application that is followed by itself, so that
 * a busy application does not hide the attempts of another. While nothing follows, it keeps nothing.
 */
export class RecentAttempts implements CommitObserver {
  readonly #clock: Clock
  readonly #followed = new Map<number | null, Kept>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Keeps a sample of an application's attempts, or of all with null, until the returned function is called. */
  follow(app: number | null): () => void {
    const kept = this.#followed.get(app) ?? { followers: 0, count: 0, delivered: [], failed: [] }
    this.#followed.set(app, kept)
    kept.followers++
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      if (--kept.followers === 0) this.#followed.delete(app)
    }
  }

  /** The sample since the last call, oldest first. */
  take(app: number | null): AttemptSample {
    const kept = this.#followed.get(app)
    if (kept === undefined) return { attempts: [], of: 0 }
    const sample = { attempts: [...kept.delivered, ...kept.failed].sort((a, b) => a.at - b.at), of: kept.count }
    kept.delivered = []
    kept.failed = []
    kept.count = 0
    return sample
  }

  settled(settlements: readonly Settlement[]): void {
    if (this.#followed.size === 0) return
    const all = this.#followed.get(null)
    for (const settlement of settlements) {
      if (settlement.attempt === null) continue
      const own = this.#followed.get(settlement.app)
      if (all === undefined && own === undefined) continue
      const attempt = this.#recent(settlement, settlement.attempt)
      if (all !== undefined) keep(all, attempt)
      if (own !== undefined) keep(own, attempt)
    }
  }

  #recent({ endpoint, app, row, verdict }: Settlement, attempt: NonNullable<Settlement['attempt']>): RecentAttempt {
    const { id, durationMs, status, code, error } = attempt
    const outcome = verdict.state === 'delivered' || verdict.state === 'dead' ? verdict.state : 'retry'
    const at = this.#clock.now() - attempt.startedAgoMs()
    const n = row.attempts + row.priorAttempts + 1
    return { id, app, endpoint, message: row.message, n, at, durationMs, status, code, error, outcome }
  }
}

function keep(kept: Kept, attempt: RecentAttempt): void {
  kept.count++
  const list = attempt.outcome === 'delivered' ? kept.delivered : kept.failed
  list.push(attempt)
  if (list.length > keptOfEach) list.shift()
}

/** Counters of the whole server. Only differences between two readings mean anything. */
export interface LiveCounts {
  /** Messages. */
  readonly accepted: number
  /** Deliveries. */
  readonly delivered: number
  /** Attempts. */
  readonly failed: number
  /** Dead letters. */
  readonly dead: number
}

export type ReadCounts = () => LiveCounts | Promise<LiveCounts>

const names = ['accepted', 'delivered', 'failed', 'dead'] as const
const minuteMs = 60_000
/** Rows of these minutes may still change: each process writes its sums every few seconds. */
const openMinutes = 3
const rowsRead = 1000

/** The counts of this process. It is the only one that delivers from a SQLite file. */
export function ownCounts(meter: Meter): ReadCounts {
  return () => {
    let failed = 0
    for (const { outcome, count } of meter.attempts()) if (outcome !== 'delivered') failed += count
    const { delivered, dead } = meter.ends
    return { accepted: meter.messagesAccepted, delivered, failed, dead }
  }
}

/** The counts of all processes on one database, from the history that each of them writes. */
export function clusterCounts(store: Pick<Store, 'readHistory'>, clock: Clock): ReadCounts {
  /** Sums of minutes that no longer change. */
  const ended = { accepted: 0, delivered: 0, failed: 0, dead: 0 }
  let open = new Map<EpochMs, Record<(typeof names)[number], number>>()
  return async () => {
    const now = clock.now()
    const from = (Math.floor(now / minuteMs) - openMinutes + 1) * minuteMs
    const range = { scope: serverScope, span: minuteMs, from, until: now + minuteMs } as const
    const { rows } = await store.readHistory(range, null, rowsRead)
    const read: typeof open = new Map()
    for (const { at, sums } of rows) {
      const minute = read.get(at) ?? { accepted: 0, delivered: 0, failed: 0, dead: 0 }
      for (const name of names) minute[name] += sums[name] ?? 0
      read.set(at, minute)
    }
    for (const [at, minute] of open) if (at < from) for (const name of names) ended[name] += minute[name]
    open = read
    const total = { ...ended }
    for (const minute of open.values()) for (const name of names) total[name] += minute[name]
    return total
  }
}
