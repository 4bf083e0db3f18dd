import { DurableObject } from 'cloudflare:workers'
import { type Failure, Failures } from './failures.ts'
import { askedWaitMs, type Forwarded, forward, isFinalFor, isSuccess } from './forward.ts'
import type { HeaderPair } from './incoming.ts'
import { type CoalesceRoute, type Env, type IngressRoute, routesOf } from './route.ts'

/** A request to be stored until its target takes it. */
export interface Parcel {
  readonly route: string
  /** Parcels of one kind replace each other while they wait. */
  readonly kind: string
  /** The id of the message or event. */
  readonly id: string
  /** Follows the URL of the route: empty, or a query with its question mark. */
  readonly query: string
  readonly headers: readonly HeaderPair[]
  readonly body: Uint8Array<ArrayBuffer>
  /** The first try is due after this time; a parcel that replaces another takes over its instant. */
  readonly dueInMs: number
}

export type Stored = 'stored' | 'replaced' | 'superseded' | 'full'

export interface OutboxStatus {
  readonly stored: number
  readonly storedBytes: number
  readonly failures: number
  readonly droppedFailures: number
  readonly heldUntil: string | null
}

type Target = CoalesceRoute | IngressRoute

interface Item extends Record<string, SqlStorageValue> {
  readonly seq: number
  readonly kind: string
  readonly id: string
  readonly query: string
  readonly headers: string
  readonly body: ArrayBuffer
  readonly arrived: number
  readonly attempts: number
}

/** The state of an outbox beside its parcels. It is kept in memory, and written when it changes. */
interface Notes {
  route: string
  /** The target gets no parcel before this instant. */
  held: number
  /** Troubles of the target in a row. */
  troubles: number
  /** Failures that were dropped to make room. */
  dropped: number
}

/** A Worker has six connections at once, and on the free plan 50 requests per invocation. */
const lanes = 6
const triesPerAlarm = 40
/** The next alarm while one runs, for the case that the object dies in it. The end of the alarm replaces it. */
const safetyMs = 5000
const firstWaitMs = 1000
const longestWaitMs = 300_000
const missingRouteMs = 60_000

/**
 * The requests of one shard of a route that wait for their target, and the failures among them. A coalescing route puts
 * parcels into windows by kind, an ingress route puts them here when Sluice does not take them.
 *
 * A parcel is `waiting` (sending = 0) or being sent (sending = 1). Of one kind there is at most one of each: a parcel that
 * arrives replaces the waiting one and never touches the one that is being sent. The end of a try is one of these:
 *
 *   taken by the target       the parcel is deleted
 *   refused, a newer waits    the parcel is deleted, and the newer one waits at least as long as this one would have
 *   refused                   the parcel waits again, longer each time
 *   refused for good, or old  the parcel becomes a failure
 *
 * Alarms run one at a time, so a parcel that is being sent when an alarm begins was left by one that died.
 */
export class Outbox extends DurableObject<Env> {
  readonly #sql: SqlStorage
  readonly #failures: Failures
  readonly #notes: Notes = { route: '', held: 0, troubles: 0, dropped: 0 }
  #count: number
  #bytes: number

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    this.#sql = ctx.storage.sql
    // Bodies come last: SQLite reads through a body to reach the columns behind it.
    this.#sql.exec(`
      create table if not exists parcel (
        seq integer primary key autoincrement, kind text not null, sending integer not null default 0,
        id text not null, bytes integer not null, arrived integer not null, due integer not null,
        attempts integer not null default 0, query text not null, headers text not null, body blob not null);
      create unique index if not exists parcel_kind on parcel (kind, sending);
      create index if not exists parcel_due on parcel (sending, due);
      create table if not exists note (name text primary key, value) without rowid`)
    const sums = 'select count(*) as n, coalesce(sum(bytes), 0) as bytes from parcel'
    ;({ n: this.#count, bytes: this.#bytes } = this.#sql.exec<{ n: number; bytes: number }>(sums).one())
    for (const { name, value } of this.#sql.exec<{ name: keyof Notes; value: never }>('select * from note'))
      this.#notes[name] = value
    this.#failures = new Failures(this.#sql)
  }

  /** Stores a parcel. When the call returns, the parcel is on disk: the answer waits for the write. */
  async put(parcel: Parcel): Promise<Stored> {
    const route = this.#routeNamed(parcel.route)
    if (route === undefined) return 'full'
    // From here on nothing is awaited until the alarm is set, so that the parcel and its alarm are written together.
    const alarm = await this.ctx.storage.getAlarm()
    const now = Date.now()
    const { kind, id, query, body } = parcel
    const headers = JSON.stringify(parcel.headers)
    const bytes = body.length + headers.length + query.length
    const ofKind = this.#sql
      .exec<{ seq: number; id: string; bytes: number; sending: number }>(
        'select seq, id, bytes, sending from parcel where kind = ?',
        kind,
      )
      .toArray()
    if (ofKind.some((each) => isOlder(id, each.id))) return 'superseded'
    const waiting = ofKind.find(({ sending }) => sending === 0)
    const grownBytes = this.#bytes + bytes - (waiting?.bytes ?? 0)
    if (grownBytes > route.maxStoredBytes || (waiting === undefined && this.#count >= route.maxStored)) return 'full'
    this.#bytes = grownBytes
    if (waiting === undefined) {
      this.#count++
      this.#sql.exec(
        'insert into parcel (kind, id, bytes, arrived, due, query, headers, body) values (?, ?, ?, ?, ?, ?, ?, ?)',
        ...[kind, id, bytes, now, now + parcel.dueInMs, query, headers, body],
      )
    } else {
      this.#sql.exec(
        'update parcel set id = ?, bytes = ?, arrived = ?, query = ?, headers = ?, body = ? where seq = ?',
        ...[id, bytes, now, query, headers, body, waiting.seq],
      )
    }
    this.#note('route', parcel.route)
    await this.#wakeBy(this.#nextDue() ?? now, alarm)
    return waiting === undefined ? 'stored' : 'replaced'
  }

  /** Sends the parcels that are due. */
  override async alarm(): Promise<void> {
    await this.ctx.storage.setAlarm(Date.now() + safetyMs)
    this.#takeBack()
    const route = this.#routeNamed(this.#notes.route)
    if (route === undefined) {
      console.error(JSON.stringify({ event: 'route is missing', route: this.#notes.route, stored: this.#count }))
      return this.ctx.storage.setAlarm(Date.now() + missingRouteMs)
    }
    let left = triesPerAlarm
    const sendNext = async (): Promise<boolean> => {
      const mayGoOn = left-- > 0 && Date.now() >= this.#notes.held
      const item = mayGoOn ? this.#take() : undefined
      if (item !== undefined) await this.#send(route, item)
      return item !== undefined
    }
    const lane = async (): Promise<void> => {
      while (await sendNext());
    }
    // After trouble with the target one parcel goes ahead. The others follow when the target took it.
    if (this.#notes.troubles > 0) await sendNext()
    // All lanes end before the alarm does, also when one of them fails: the next alarm takes parcels back.
    const ended = await Promise.allSettled(Array.from({ length: lanes }, lane))
    for (const each of ended) if (each.status === 'rejected') throw each.reason
    this.#failures.sweep(route.keepFailuresMs, Date.now())
    await this.#schedule(route)
  }

  async status(): Promise<OutboxStatus> {
    const { held, dropped } = this.#notes
    return {
      stored: this.#count,
      storedBytes: this.#bytes,
      failures: this.#failures.count,
      droppedFailures: dropped,
      heldUntil: held > Date.now() ? new Date(held).toISOString() : null,
    }
  }

  async listFailures(before: number, limit: number): Promise<Failure[]> {
    return this.#failures.list(before, limit)
  }

  async readFailure(failure: number): Promise<ReturnType<Failures['read']>> {
    return this.#failures.read(failure)
  }

  async deleteFailure(failure: number): Promise<boolean> {
    return this.#failures.delete(failure)
  }

  /** Makes a failure a parcel of its own again, which is due at once. Answers whether there was one. */
  async retryFailure(failure: number): Promise<boolean> {
    const alarm = await this.ctx.storage.getAlarm()
    const now = Date.now()
    const [moved] = this.#sql
      .exec<{ bytes: number }>(
        `insert into parcel (kind, id, bytes, arrived, due, query, headers, body)
           select 'failure ' || seq, id, bytes, ?, ?, query, headers, body from failure where seq = ? returning bytes`,
        ...[now, now, failure],
      )
      .toArray()
    if (moved === undefined) return false
    this.#failures.delete(failure)
    this.#count++
    this.#bytes += moved.bytes
    this.#note('held', 0)
    await this.#wakeBy(now, alarm)
    return true
  }

  /** Takes the parcel that is due first, and marks it as being sent. */
  #take(): Item | undefined {
    const due = `select seq from parcel as this where sending = 0 and due <= ?
      and not exists (select 1 from parcel as other where other.kind = this.kind and other.sending = 1)
      order by due limit 1`
    const columns = 'seq, kind, id, arrived, attempts, query, headers, body'
    const statement = `update parcel set sending = 1, attempts = attempts + 1 where seq in (${due}) returning ${columns}`
    return this.#sql.exec<Item>(statement, Date.now()).toArray()[0]
  }

  async #send(route: Target, item: Item): Promise<void> {
    const { attempts, arrived } = item
    const url = `${route.to}${item.query}`
    const body = new Uint8Array(item.body)
    const forwarded = await forward({ url, headers: JSON.parse(item.headers), body, timeoutMs: route.timeoutMs })
    const now = Date.now()
    if (isSuccess(forwarded)) {
      this.#note('troubles', 0)
      return this.#drop(item.seq)
    }
    const waitMs = Math.max(backoffMs(attempts), askedWaitMs(forwarded, now))
    if (isTroubleOfTarget(forwarded)) this.#hold(forwarded, now)
    if (this.#hasNewer(item.kind)) {
      // The newer parcel of the kind stands for this one, and the target gets no more requests than it would have.
      this.#sql.exec('update parcel set due = max(due, ?) where kind = ? and sending = 0', now + waitMs, item.kind)
      return this.#drop(item.seq)
    }
    if (isFinalFor(route.mode, forwarded) || now + waitMs > arrived + route.retryForMs) {
      return this.#fail(route, item, reasonOf(forwarded), now)
    }
    this.#sql.exec('update parcel set sending = 0, due = ? where seq = ?', now + waitMs, item.seq)
  }

  /** Parcels that were being sent when the object died wait again, unless a newer one of their kind does. */
  #takeBack(): void {
    const left = this.#sql
      .exec<{ seq: number; kind: string }>('select seq, kind from parcel where sending = 1')
      .toArray()
    for (const { seq, kind } of left) {
      if (this.#hasNewer(kind)) this.#drop(seq)
      else this.#sql.exec('update parcel set sending = 0 where seq = ?', seq)
    }
  }

  #hasNewer(kind: string): boolean {
    return this.#sql.exec('select 1 from parcel where kind = ? and sending = 0', kind).toArray().length > 0
  }

  #drop(seq: number): void {
    const [row] = this.#sql.exec<{ bytes: number }>('delete from parcel where seq = ? returning bytes', seq).toArray()
    if (row === undefined) return
    this.#count--
    this.#bytes -= row.bytes
  }

  #fail(route: Target, { seq, id, attempts }: Item, reason: string, now: number): void {
    const dropped = this.#failures.keep(seq, reason, now, route)
    this.#drop(seq)
    this.#note('dropped', this.#notes.dropped + dropped)
    console.error(JSON.stringify({ event: 'failure', route: route.name, id, reason, attempts, dropped }))
  }

  /** The target gets no parcel of this shard until then: its Retry-After, or a wait that grows with each trouble. */
  #hold(forwarded: Forwarded, now: number): void {
    // Requests that were open together meet one trouble, not several.
    const isNew = now >= this.#notes.held
    if (isNew) this.#note('troubles', this.#notes.troubles + 1)
    const until = now + Math.max(askedWaitMs(forwarded, now), isNew ? backoffMs(this.#notes.troubles) : 0)
    this.#note('held', Math.max(until, this.#notes.held))
  }

  /** The instant of the next try; undefined when nothing waits. */
  #nextDue(): number | undefined {
    const { due } = this.#sql.exec<{ due: number | null }>('select min(due) as due from parcel where sending = 0').one()
    return due === null ? undefined : Math.max(due, this.#notes.held)
  }

  async #schedule({ keepFailuresMs }: Target): Promise<void> {
    const oldest = this.#failures.oldest()
    const sweep = oldest === undefined ? undefined : oldest + keepFailuresMs
    const next = Math.min(this.#nextDue() ?? Number.POSITIVE_INFINITY, sweep ?? Number.POSITIVE_INFINITY)
    if (next === Number.POSITIVE_INFINITY) return this.ctx.storage.deleteAlarm()
    return this.ctx.storage.setAlarm(next)
  }

  async #wakeBy(at: number, alarm: number | null): Promise<void> {
    if (alarm === null || alarm > at) await this.ctx.storage.setAlarm(at)
  }

  #routeNamed(name: string): Target | undefined {
    const route = routesOf(this.env).byName.get(name)
    return route === undefined || route.mode === 'relay' ? undefined : route
  }

  #note<Name extends keyof Notes>(name: Name, value: Notes[Name]): void {
    if (this.#notes[name] === value) return
    this.#notes[name] = value
    this.#sql.exec('insert or replace into note (name, value) values (?, ?)', name, value)
  }
}

/**
 * Whether a message was accepted before another one. Ids of Sluice's messages begin with the time and sort by it, so that
 * the retry of an old message does not replace a newer one. Of other ids the last to arrive is the newest.
 */
function isOlder(id: string, other: string): boolean {
  const pattern = /^msg_[0-9A-Za-z]{27}$/
  return pattern.test(id) && pattern.test(other) && id < other
}

/** Whether the target as a whole is in trouble, and not only this request. */
function isTroubleOfTarget(forwarded: Forwarded): boolean {
  return forwarded.kind !== 'answered' || [408, 429, 502, 503, 504].includes(forwarded.status)
}

function reasonOf(forwarded: Forwarded): string {
  return forwarded.kind === 'answered' ? `the target answered ${forwarded.status}` : forwarded.problem
}

/** The wait after a number of tries: doubled each time, and lengthened by chance so that shards do not come together. */
function backoffMs(tries: number): number {
  const ms = Math.min(longestWaitMs, firstWaitMs * 2 ** Math.min(tries - 1, 20))
  return Math.round(ms * (1 + Math.random() / 5))
}
