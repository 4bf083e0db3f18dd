import type { Clock, EpochMs } from '../domain/clock.ts'
import { serverScope } from '../domain/history.ts'
import type { Store } from '../store/store.ts'
import type { Meter } from './meter.ts'

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
