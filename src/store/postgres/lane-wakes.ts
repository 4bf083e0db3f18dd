import type { EpochMs } from '../../domain/clock.ts'
import { type StoreContext, StoreTrouble } from '../store.ts'
import { sqlNow, withClock } from './database.ts'
import { integers, postgresStatement, type Sessions } from './sessions.ts'
import { channel, type Signals } from './signals.ts'

/**
 * When an endpoint's queue next has something to do: now when a fresh or replayed row waits, else the earliest timed
 * row's instant, else null. Three seeks of pending's primary key; written with `exists`, the planner may prefer to read
 * every replayed row there is into a hash table.
 */
export function sqlWorkDue(endpoint: string): string {
  return `
    case
      when (select 1 from pending where endpoint = ${endpoint} and class = 0 limit 1) = 1 then clock.now
      when (select 1 from pending where endpoint = ${endpoint} and class = 2 limit 1) = 1 then clock.now
      else (
        select greatest(clock.now, due_at) from pending where endpoint = ${endpoint} and class = 1 order by due_at limit 1
      )
    end`
}

/**
 * Opens a statement with a reading of the clock and a walk over the endpoints that something waits for: up to `$2` of them
 * behind `$1`, at the price of one seek of pending's primary key each, however many rows they have. The walk ends with an
 * endpoint that is null when there are no more.
 */
export const withWalk = `
    with recursive clock as materialized (
      select ${sqlNow} as now
    ), walk (endpoint, n) as (
      (select endpoint, 1 from pending where endpoint > $1 order by endpoint limit 1)
      union all
      select (select p.endpoint from pending p where p.endpoint > walk.endpoint order by p.endpoint limit 1), n + 1
        from walk where endpoint is not null and n < $2
    )`

const restEnds = 'greatest(not_before, hold_until)'

/**
 * Lanes are updated by an array of keys, and the values that differ are looked up in arrays beside it, because the
 * planner cannot turn that around: a join it might drive from the lanes, and read all of them. Looking up costs the
 * square of the length, hence this limit: 5 ms at a thousand.
 */
export const lanesPerStatement = 1000

/**
 * Publishing's half of the handshake with release: rows were committed, then unowned lanes are woken. An
 * owned lane is not written: its owner gets a signal of the rows instead. Nothing is sent when this process has no other
 * process to signal.
 */
const requestedAt = `(select now from clock), ($2::bigint[])[array_position($1::bigint[], endpoint)]`

const wakeLanes = postgresStatement('wake-lanes')`
  ${withClock}, woken as (
    update lane set due_at = greatest(${requestedAt}, ${restEnds})
     where endpoint = any ($1::bigint[]) and owner is null and not stopped
       and (due_at is null or due_at > greatest(${requestedAt}, ${restEnds}))
    returning endpoint, app
  ), found as materialized (
    select exists (select from woken) as woken,
           array (select min(endpoint) from woken group by app order by app) as lanes,
           array (select app from woken group by app order by app) as apps,
           (select 1 from lane where endpoint = any ($1::bigint[]) and coalesce(owner, 0) <> 0 limit 1) = 1 as owned
  )
  select woken, lanes, apps, case when woken or owned
           then pg_notify('${channel}', case when woken then upper($3) else $3 end || $4) end
    from found`

interface WokenRow {
  readonly woken: boolean
  /** Of each application of which lanes became due, one of them. */
  readonly lanes: readonly number[]
  readonly apps: readonly number[]
}

/** A column of `work`, which holds arrays, for the lane at hand. */
export function sqlOfWork(column: string): string {
  return `(select ${column} from work)[array_position($1::bigint[], endpoint)]`
}

/**
 * Release's half: the lanes were committed as unowned, and only then are their queues looked at. Either this sees the
 * row that was published meanwhile, or the publisher sees that the lane is unowned.
 */
const rouseLanes = postgresStatement('rouse-lanes')`
  ${withClock}, work as materialized (
    select array_agg(${sqlWorkDue('rested.endpoint')} order by rested.n) as due_at
      from clock, unnest($1::bigint[]) with ordinality as rested (endpoint, n)
  ), woken as (
    update lane set due_at = greatest(${sqlOfWork('due_at')}, ${restEnds})
     where endpoint = any ($1::bigint[]) and owner is null and not stopped and ${sqlOfWork('due_at')} is not null
       and (due_at is null or due_at > greatest(${sqlOfWork('due_at')}, ${restEnds}))
    returning due_at <= (select now from clock) as is_due
  )
  select count(*) as woken, case when bool_or(is_due) then pg_notify('${channel}', 'w' || $2) end
    from woken`

/** Publishes within this time share one wake-up. At 500 a second it costs the server a few per cent of a core. */
const gapMs = 2
const retryMs = 100

/** Wakes unowned lanes. */
export class LaneWakes {
  readonly #sessions: Sessions
  readonly #context: StoreContext
  readonly #signals: Signals
  /** Lanes of this process's own workers, which hear of new rows directly. */
  readonly #owners = new Map<number, number>()
  readonly #requests = new Map<number, EpochMs>()
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
  request(endpoints: Iterable<number>, dueAt: EpochMs, areFresh: boolean): void {
    for (const endpoint of endpoints) {
      if (this.#owners.has(endpoint)) continue
      const earlier = this.#requests.get(endpoint)
      if (earlier === undefined || earlier > dueAt) this.#requests.set(endpoint, dueAt)
      if (!areFresh) this.#onlyFresh = false
    }
    this.#schedule(0)
  }

  /** Makes unowned lanes due by the rows in their queues. */
  async rouse(endpoints: readonly number[]): Promise<void> {
    const values = [integers(endpoints), this.#signals.payload([])]
    const [row] = await this.#sessions.run<{ woken: number }>(rouseLanes, values)
    if (row && row.woken > 0) this.#signals.lanes()
  }

  /** Wakes the requested lanes and takes no more requests; the next reconcile wakes those that fail now. */
  async close(): Promise<void> {
    this.#closed = true
    this.#cancelTimer?.()
    await this.#flushing
    await this.#flush()
  }

  #schedule(waitMs: number): void {
    if (this.#requests.size === 0 || this.#flushing || this.#cancelTimer || this.#closed) return
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
    if (this.#requests.size === 0) return gapMs
    const requests = [...this.#requests].slice(0, lanesPerStatement)
    for (const [endpoint] of requests) this.#requests.delete(endpoint)
    const onlyFresh = this.#onlyFresh
    if (this.#requests.size === 0) this.#onlyFresh = true
    const endpoints = requests.map(([endpoint]) => endpoint)
    const dues = requests.map(([, dueAt]) => dueAt)
    const kind = onlyFresh ? 'f' : 'r'
    try {
      const values = [integers(endpoints), integers(dues), kind, this.#signals.payload(endpoints)]
      const [row] = await this.#sessions.run<WokenRow>(wakeLanes, values)
      if (row?.woken) this.#signals.lanes(row.apps.map((app, i) => ({ app, endpoint: row.lanes[i] as number })))
      return gapMs
    } catch (error) {
      this.#context.onTrouble?.(`postgres: lanes could not be woken, trying again: ${(error as Error).message}`)
      if (!(error instanceof StoreTrouble)) return retryMs
      for (const [endpoint, dueAt] of requests) this.request([endpoint], dueAt, onlyFresh)
      return retryMs
    }
  }
}
