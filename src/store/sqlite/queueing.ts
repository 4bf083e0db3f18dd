import type { EpochMs } from '../../domain/clock.ts'
import { fresh, timed } from '../../domain/delivery.ts'
import type { StoredMessage } from '../store.ts'
import type { Connection } from './connection.ts'

/** The rows of one transaction, for the signals after it. */
export interface Queued {
  readonly now: EpochMs
  /** The due instant of rows that are due at once. */
  readonly freshAt: EpochMs
  /** When each endpoint has something to do. */
  readonly due: Map<number, EpochMs>
  /** The last fresh row of each ordered lane that was queued for. */
  readonly last: Map<number, FreshRow>
  /** Fresh rows of ordered lanes. They are written at the end of the transaction. */
  readonly ordered: Map<number, OrderedRow[]>
  onlyFresh: boolean
  wide: boolean
  /** Accepted messages that are plain and due at once. */
  readonly fresh: StoredMessage[]
  /** Something else was queued as well. */
  mixed: boolean
}

/** The place of a row among the fresh ones of its endpoint. */
export interface FreshRow {
  readonly due_at: EpochMs
  readonly message: number
}

/** A fresh row of an ordered lane. */
interface OrderedRow {
  readonly dueAt: EpochMs
  readonly message: number
  readonly since: EpochMs
  readonly orderKey: number
  readonly expiresAt: EpochMs | null
  readonly variant: number | null
}

/** Adds a message to the queues of endpoints, inside the caller's transaction. */
type Enqueue = (queued: Queued, endpoints: readonly number[], message: number, since: EpochMs) => void

export interface Queueing {
  /** Runs `work` in a transaction that ends by waking the lanes it queued for, and then signals the watcher. */
  inTransaction<T>(work: (queued: Queued) => T): T
  /** The same, but other callers run while it waits for the disk. It signals, and so anything is sent, only afterwards. */
  inTransactionApart<T>(work: (queued: Queued) => T): Promise<T>
  readonly enqueue: Enqueue
}

/** Of each application of which lanes became due, one of them. */
type Woken = Map<number, number>

/** Puts messages into queues. */
export function queueing(connection: Connection): Queueing {
  const addPending = connection.prepare(`
    insert into pending (endpoint, class, due_at, message, since, attempts, prior_attempts) values (?, ?, ?, ?, ?, 0, 0)`)
  const wakes = laneWakes(connection)
  const addOrdered = orderedRows(connection)
  let lastFreshAt: EpochMs = 0

  /** Runs `work` as part of a transaction. */
  function queue<T>(work: (queued: Queued) => T): {
    readonly answer: T
    readonly queued: Queued
    readonly woken: Woken
  } {
    const now = connection.now()
    // Fresh rows are served in the order of their due instants, which is why those never run backwards: a row that
    // a clock set back puts behind a reader's cursor would wait until that reader has drained the lane.
    lastFreshAt = Math.max(lastFreshAt, now)
    const queued: Queued = {
      now,
      freshAt: lastFreshAt,
      due: new Map(),
      last: new Map(),
      ordered: new Map(),
      onlyFresh: true,
      wide: false,
      fresh: [],
      mixed: false,
    }
    const answer = work(queued)
    for (const [endpoint, rows] of queued.ordered) {
      addOrdered(endpoint, rows)
      for (const { since } of rows) wakeAt(queued.due, endpoint, since)
    }
    const woken: Woken = new Map()
    for (const [endpoint, at] of queued.due) {
      const app = wakes.wake(endpoint, at)
      if (app !== undefined && !woken.has(app)) woken.set(app, endpoint)
    }
    return { answer, queued, woken }
  }

  function signal({ due, onlyFresh, wide }: Queued, woken: Woken): void {
    if (due.size > 0) connection.watcher?.rows([...due.keys()], onlyFresh ? fresh : undefined)
    signalWoken(woken)
    if (wide) connection.watcher?.fanOuts?.()
  }

  function signalWoken(woken: Woken): void {
    if (woken.size > 0) connection.watcher?.lanes([...woken].map(([app, endpoint]) => ({ endpoint, app })))
  }

  function inTransaction<T>(work: (queued: Queued) => T): T {
    const { answer, queued, woken } = connection.transaction(() => queue(work))
    signal(queued, woken)
    return answer
  }

  async function inTransactionApart<T>(work: (queued: Queued) => T): Promise<T> {
    const begunAt = connection.context.clock.steady()
    const { answer, queued, woken } = connection.relaxedTransaction(() => queue(work))
    await connection.publishedOnDisk()
    const unread = queued.mixed ? undefined : connection.watcher?.stored?.(queued.fresh, begunAt)
    if (unread === undefined) signal(queued, woken)
    else {
      if (unread.length > 0) connection.watcher?.rows(unread, fresh)
      signalWoken(woken)
    }
    return answer
  }

  const enqueue: Enqueue = (queued, endpoints, message, since) => {
    const { now, due, freshAt } = queued
    const delayed = since > now
    if (delayed) queued.onlyFresh = false
    const rowClass = delayed ? timed : fresh
    const rowDueAt = delayed ? since : freshAt
    for (const endpoint of endpoints) {
      addPending.run(endpoint, rowClass, rowDueAt, message, since)
      wakeAt(due, endpoint, since)
    }
  }

  return { inTransaction, inTransactionApart, enqueue }
}

/** Notes that an endpoint has something to do from an instant on. */
export function wakeAt(due: Map<number, EpochMs>, endpoint: number, at: EpochMs): void {
  const earlier = due.get(endpoint)
  if (earlier === undefined || earlier > at) due.set(endpoint, at)
}

/** From this many rows on that differ in their message alone, one statement is cheaper than a statement per row. */
const togetherAtLeast = 8

/**
 * Makes the function that writes fresh rows of one ordered lane. A batch of 500 messages for 50 lanes cannot leave them for
 * later, when newer messages would be in front; lane by lane, its 25,000 rows take 13 ms, message by message 28 ms.
 */
function orderedRows(connection: Connection): (endpoint: number, rows: readonly OrderedRow[]) => void {
  const columns = '(endpoint, class, due_at, message, since, attempts, prior_attempts, order_key, expires_at, variant)'
  const add = connection.prepare(`
    insert into pending ${columns} values (?1, ${fresh}, ?2, ?7, ?3, 0, 0, ?4, ?5, ?6)`)
  const addMany = connection.prepare(`
    insert into pending ${columns} select ?1, ${fresh}, ?2, value, ?3, 0, 0, ?4, ?5, ?6 from json_each(?7)`)
  return (endpoint, rows) => {
    for (let at = 0; at < rows.length; ) {
      const first = rows[at] as OrderedRow
      let end = at + 1
      while (end < rows.length && isAlike(first, rows[end] as OrderedRow)) end++
      const { dueAt, since, orderKey, expiresAt, variant } = first
      const messages = rows.slice(at, end).map(({ message }) => message)
      if (messages.length >= togetherAtLeast) {
        addMany.run(endpoint, dueAt, since, orderKey, expiresAt, variant, JSON.stringify(messages))
      } else for (const each of messages) add.run(endpoint, dueAt, since, orderKey, expiresAt, variant, each)
      at = end
    }
  }
}

/** Whether two rows of a lane differ in their message alone. */
function isAlike(one: OrderedRow, other: OrderedRow): boolean {
  return (
    one.dueAt === other.dueAt &&
    one.since === other.since &&
    one.orderKey === other.orderKey &&
    one.expiresAt === other.expiresAt &&
    one.variant === other.variant
  )
}

/** Wakes unowned lanes. Each method runs inside the caller's transaction. */
interface LaneWakes {
  /** When the endpoint's queue next has something to do, `now` at the earliest; null when it is empty. */
  workDue(endpoint: number, now: EpochMs): EpochMs | null
  /** Makes the lane due by then unless something forbids it. Answers its application if that changed anything. */
  wake(endpoint: number, due: EpochMs): number | undefined
}

/**
 * When a queue next has something to do: 0 when a fresh or replayed row waits, else the earliest timed row's instant, else
 * null. One seek of pending's primary key for an empty queue, and four at most.
 */
export const sqlWorkDue = (endpoint: string) => `
  case
    when not exists (select 1 from pending where endpoint = ${endpoint}) then null
    when exists (select 1 from pending where endpoint = ${endpoint} and class = 0) then 0
    when exists (select 1 from pending where endpoint = ${endpoint} and class = 2) then 0
    else (select min(due_at) from pending where endpoint = ${endpoint} and class = 1)
  end`

export function laneWakes(connection: Connection): LaneWakes {
  const work = connection.prepare<{ due_at: EpochMs | null }>(`select ${sqlWorkDue('?1')} as due_at`)
  // An owned lane is not written: its owner sees the rows itself.
  const wakeIt = connection.prepare<{ app: number }>(`
    update lane set due_at = max(?2, not_before, hold_until)
    where endpoint = ?1 and owner is null and stopped = 0 and (due_at is null or due_at > max(?2, not_before, hold_until))
    returning app`)
  return {
    workDue(endpoint, now) {
      const due = work.get(endpoint)?.due_at ?? null
      return due === null ? null : Math.max(due, now)
    },
    wake: (endpoint, due) => wakeIt.get(endpoint, due)?.app,
  }
}
