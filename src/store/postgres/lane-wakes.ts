import type { EpochMs } from '../../domain/clock.ts'
import type { StoreContext } from '../store.ts'
import { StoreTrouble } from '../store.ts'
import { integers } from './arrays.ts'
import { withClock } from './server-time.ts'
import type { Sessions, Statement } from './sessions.ts'
import { channel, type Signals } from './signals.ts'

/** A hold, a debt or a sleep read back from the store is never longer than this, whatever the clock did meanwhile. */
export const longestRestMs = 24 * 60 * 60 * 1000

/**
 * When an endpoint's queue next has something to do: now when a fresh or replayed row waits, else the earliest timed
 * row's instant, else null. Three seeks of pending's primary key.
 */
export function sqlWorkDue(endpoint: string): string {
  return `
    case
      when exists (select from pending where endpoint = ${endpoint} and class = 0) then clock.now
      when exists (select from pending where endpoint = ${endpoint} and class = 2) then clock.now
      else (
        select greatest(clock.now, due_at) from pending where endpoint = ${endpoint} and class = 1 order by due_at limit 1
      )
    end`
}

const restEnds = 'greatest(lane.not_before, lane.hold_until)'

/**
 * Publishing's half of the handshake with release: rows were committed, then the lanes that nobody owns are woken. A lane
 * that somebody owns is not written: its owner is told of the rows instead. Nothing is sent when this process has
 * nobody to tell.
 */
const wakeLanes: Statement = {
  name: 'wake-lanes',
  text: `
    ${withClock}, wish as materialized (
      select wish.endpoint, greatest(wish.due_at, clock.now) as due_at
        from clock, unnest($1::bigint[], $2::bigint[]) as wish (endpoint, due_at)
    ), woken as (
      update lane set due_at = greatest(wish.due_at, ${restEnds})
        from wish
       where lane.endpoint = wish.endpoint and lane.owner is null and not lane.stopped
         and (lane.due_at is null or lane.due_at > greatest(wish.due_at, ${restEnds}))
      returning 1
    ), found as materialized (
      select exists (select from woken) as woken,
             exists (select from lane where endpoint = any($1::bigint[]) and owner is not null) as owned
    )
    select woken, case when woken or owned
             then pg_notify('${channel}', case when woken then upper($3) else $3 end || $4) end
      from found`,
}

/**
 * Release's half: the lanes were committed as unowned, and only then are their queues looked at. Either this sees the
 * row that was published meanwhile, or the publisher sees that nobody owns the lane.
 */
const rouseLanes: Statement = {
  name: 'rouse-lanes',
  text: `
    ${withClock}, work as materialized (
      select rested.endpoint, clock.now, ${sqlWorkDue('rested.endpoint')} as due_at
        from clock, unnest($1::bigint[]) as rested (endpoint)
    ), woken as (
      update lane set due_at = greatest(work.due_at, ${restEnds})
        from work
       where lane.endpoint = work.endpoint and lane.owner is null and not lane.stopped and work.due_at is not null
         and (lane.due_at is null or lane.due_at > greatest(work.due_at, ${restEnds}))
      returning lane.due_at <= work.now as is_due
    )
    select count(*) as woken, case when bool_or(is_due) then pg_notify('${channel}', 'w' || $2) end
      from woken`,
}

/** Publishes within this time share one wake-up. At 500 a second it costs the server a few per cent of a core. */
const gapMs = 2
const retryMs = 100

/** Wakes lanes that nobody owns. */
export class LaneWakes {
  readonly #sessions: Sessions
  readonly #context: StoreContext
  readonly #signals: Signals
  /** What this process's own workers own: they hear of new rows directly. */
  readonly #owners = new Map<number, number>()
  #wishes = new Map<number, EpochMs>()
  #onlyFresh = true
  #flushing: Promise<void> | undefined
  #cancelTimer: (() => void) | undefined
  #closed = false

  constructor(sessions: Sessions, context: StoreContext, signals: Signals) {
    this.#sessions = sessions
    this.#context = context
    this.#signals = signals
  }

  /** Notes that a worker of this process owns these lanes. */
  owned(worker: number, endpoints: readonly number[]): void {
    for (const endpoint of endpoints) this.#owners.set(endpoint, worker)
  }

  /** Forgets lanes of a worker, before they are released; all of them when none are named. */
  disowned(worker: number, endpoints: Iterable<number> = [...this.#owners.keys()]): void {
    for (const endpoint of endpoints) if (this.#owners.get(endpoint) === worker) this.#owners.delete(endpoint)
  }

  /**
   * Asks for lanes to be woken by an instant, 0 for now, because of rows already committed. A lane owned here needs none:
   * its owner will look at the queue at the latest when it releases the lane, which it has not begun to do.
   */
  wish(endpoints: Iterable<number>, dueAt: EpochMs, areFresh: boolean): void {
    for (const endpoint of endpoints) {
      if (this.#owners.has(endpoint)) continue
      const earlier = this.#wishes.get(endpoint)
      if (earlier === undefined || earlier > dueAt) this.#wishes.set(endpoint, dueAt)
      if (!areFresh) this.#onlyFresh = false
    }
    this.#schedule(0)
  }

  /** Makes lanes that nobody owns due by what waits in their queues. */
  async rouse(endpoints: readonly number[]): Promise<void> {
    const sorted = endpoints.toSorted((a, b) => a - b)
    const [row] = await this.#sessions.run<{ woken: number }>(rouseLanes, [integers(sorted), this.#signals.payload([])])
    if (row && row.woken > 0) this.#signals.lanes()
  }

  /** Sends what was asked for and takes no more; what fails now is left to the next reconcile. */
  async close(): Promise<void> {
    this.#closed = true
    this.#cancelTimer?.()
    await this.#flushing
    await this.#flush()
  }

  #schedule(waitMs: number): void {
    if (this.#wishes.size === 0 || this.#flushing || this.#cancelTimer || this.#closed) return
    const start = () => {
      this.#cancelTimer = undefined
      this.#flushing = this.#flush().then((waitMs) => {
        this.#flushing = undefined
        this.#schedule(waitMs)
      })
    }
    this.#cancelTimer = this.#context.clock.after(waitMs, start)
  }

  /** Never rejects; answers how long to wait before the next. */
  async #flush(): Promise<number> {
    if (this.#wishes.size === 0) return gapMs
    const wishes = [...this.#wishes].sort(([a], [b]) => a - b) // one order for everyone, so that no two deadlock
    const onlyFresh = this.#onlyFresh
    this.#wishes = new Map()
    this.#onlyFresh = true
    const endpoints = wishes.map(([endpoint]) => endpoint)
    const dues = wishes.map(([, dueAt]) => dueAt)
    const kind = onlyFresh ? 'f' : 'r'
    try {
      const values = [integers(endpoints), integers(dues), kind, this.#signals.payload(endpoints)]
      const [row] = await this.#sessions.run<{ woken: boolean }>(wakeLanes, values)
      if (row?.woken) this.#signals.lanes()
      return gapMs
    } catch (error) {
      this.#context.log?.(`postgres: lanes could not be woken, trying again: ${(error as Error).message}`)
      if (!(error instanceof StoreTrouble)) return retryMs
      for (const [endpoint, dueAt] of wishes) this.wish([endpoint], dueAt, onlyFresh)
      return retryMs
    }
  }
}
