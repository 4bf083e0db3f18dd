import type { Clock, EpochMs, SteadyMs } from '../../domain/clock.ts'
import { type RowName, type StoreContext, StoreTrouble } from '../store.ts'
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
/**
 * As `gapMs`, for lanes that were woken a moment ago and most likely have owners. The wake-up is then nothing but its
 * notification, which costs the server one turn of every process and a read by each owner.
 */
const ownedGapMs = 20
/** A lane counts as just woken for this long at least, and for twice as long at most. An idle owner keeps it for 2 s. */
const justWokenMs = 1000
const retryMs = 100
/** An owner has no room for more rows of a lane at once, and reads its queue page by page. */
const mostNames = 64

/** A lane that is to be woken because of rows. */
interface WakeRequest {
  readonly dueAt: EpochMs
  /** The names of all these rows; undefined when one of them has none, or when they are many. */
  readonly names: RowName[] | undefined
}

/** Wakes unowned lanes. */
export class LaneWakes {
  readonly #sessions: Sessions
  readonly #context: StoreContext
  readonly #signals: Signals
  /** Lanes of this process's own workers, which hear of new rows directly. */
  readonly #owners = new Map<number, number>()
  readonly #requests = new Map<number, WakeRequest>()
  #onlyFresh = true
  /** A requested lane was not woken a moment ago. */
  #isUrgent = false
  readonly #justWoken: JustWoken
  #flushing: Promise<void> | undefined
  #flushedAt: SteadyMs = Number.NEGATIVE_INFINITY
  #timer: { readonly at: SteadyMs; readonly cancel: () => void } | undefined
  #closed = false

  constructor(sessions: Sessions, context: StoreContext, signals: Signals) {
    this.#sessions = sessions
    this.#context = context
    this.#signals = signals
    this.#justWoken = new JustWoken(context.clock)
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
   * its owner will look at the queue at the latest when it releases the lane, which it has not begun to do. `row` names the
   * only row of each endpoint that the request is about.
   */
  request(endpoints: Iterable<number>, dueAt: EpochMs, areFresh: boolean, row?: Omit<RowName, 'endpoint'>): void {
    for (const endpoint of endpoints) {
      if (this.#owners.has(endpoint)) continue
      const known = this.#requests.get(endpoint)
      const names = known === undefined ? [] : known.names
      const isNamed = row !== undefined && names !== undefined && names.length < mostNames
      if (isNamed) names.push({ endpoint, ...row })
      this.#requests.set(endpoint, {
        dueAt: Math.min(dueAt, known?.dueAt ?? dueAt),
        names: isNamed ? names : undefined,
      })
      if (!areFresh) this.#onlyFresh = false
      this.#isUrgent ||= !this.#justWoken.has(endpoint)
    }
    this.#schedule()
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
    this.#timer?.cancel()
    await this.#flushing
    await this.#flush()
  }

  #schedule(): void {
    if (this.#requests.size === 0 || this.#flushing || this.#closed) return
    const { clock } = this.#context
    const at = this.#flushedAt + (this.#isUrgent ? gapMs : ownedGapMs)
    if (this.#timer && this.#timer.at <= at) return
    this.#timer?.cancel()
    const start = () => {
      this.#timer = undefined
      this.#flushing = this.#flush().then(() => {
        this.#flushing = undefined
        this.#schedule()
      })
    }
    this.#timer = { at, cancel: clock.after(Math.max(0, at - clock.steady()), start) }
  }

  /** Never rejects. */
  async #flush(): Promise<void> {
    const { clock, onTrouble } = this.#context
    if (this.#requests.size === 0) return
    const requests = [...this.#requests].slice(0, lanesPerStatement)
    for (const [endpoint] of requests) this.#requests.delete(endpoint)
    const onlyFresh = this.#onlyFresh
    if (this.#requests.size === 0) {
      this.#onlyFresh = true
      this.#isUrgent = false
    }
    const endpoints = requests.map(([endpoint]) => endpoint)
    const dues = requests.map(([, { dueAt }]) => dueAt)
    const names = requests.flatMap(([, { names = [] }]) => names)
    const kind = onlyFresh ? 'f' : 'r'
    try {
      const values = [integers(endpoints), integers(dues), kind, this.#signals.payload(endpoints, names)]
      const [row] = await this.#sessions.run<WokenRow>(wakeLanes, values)
      this.#flushedAt = clock.steady()
      this.#justWoken.add(endpoints)
      if (row?.woken) this.#signals.lanes(row.apps.map((app, i) => ({ app, endpoint: row.lanes[i] as number })))
    } catch (error) {
      onTrouble?.(`postgres: lanes could not be woken, trying again: ${(error as Error).message}`)
      this.#flushedAt = clock.steady() + retryMs
      if (!(error instanceof StoreTrouble)) return
      for (const [endpoint, { dueAt }] of requests) this.request([endpoint], dueAt, onlyFresh)
    }
  }
}

/** The lanes that were woken a moment ago, in two sets, of which the older one is dropped. */
class JustWoken {
  readonly #clock: Clock
  #sets: readonly [newer: Set<number>, older: Set<number>] = [new Set(), new Set()]
  #since: SteadyMs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  has(endpoint: number): boolean {
    this.#turn()
    const [newer, older] = this.#sets
    return newer.has(endpoint) || older.has(endpoint)
  }

  add(endpoints: readonly number[]): void {
    this.#turn()
    for (const endpoint of endpoints) this.#sets[0].add(endpoint)
  }

  #turn(): void {
    const now = this.#clock.steady()
    const age = now - this.#since
    if (age < justWokenMs) return
    this.#sets = [new Set(), age < 2 * justWokenMs ? this.#sets[0] : new Set()]
    this.#since = now
  }
}
