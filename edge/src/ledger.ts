import { DurableObject } from 'cloudflare:workers'

/** The answer to a claim. Only `claimed` allows the caller to forward the delivery. */
export type Claim =
  | { readonly state: 'claimed' }
  | { readonly state: 'delivered' }
  | { readonly state: 'in flight'; readonly retryInMs: number }
  | { readonly state: 'full' }

interface Row extends Record<string, SqlStorageValue> {
  readonly token: string | null
  readonly until: number
}

const sweepRows = 1000
const sweepEveryMs = 60_000
/** Rows that a full ledger forgets at once, so that it does not search at every claim. */
const forgottenShare = 0.01

/**
 * The deliveries of one shard of a relay route: those that are being forwarded, each leased to one request by its token,
 * and those that the receiver took, until their time is over. It holds digests and instants, never a payload.
 *
 * A lease ends by itself, so a Worker that dies blocks its delivery no longer than that.
 */
export class DeliveryLedger extends DurableObject {
  readonly #sql: SqlStorage
  #rows: number

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env)
    this.#sql = ctx.storage.sql
    this.#sql.exec(`
      create table if not exists delivery (key text primary key, token text, until integer not null) without rowid;
      create index if not exists delivery_until on delivery (until)`)
    this.#rows = this.#sql.exec<{ n: number }>('select count(*) as n from delivery').one().n
  }

  /** Leases a delivery to the bearer of the token, unless it was delivered or is leased. */
  async claim(key: string, token: string, leaseMs: number, maxRows: number): Promise<Claim> {
    const alarm = await this.ctx.storage.getAlarm()
    const now = Date.now()
    const [row] = this.#sql.exec<Row>('select token, until from delivery where key = ?', key).toArray()
    if (row !== undefined && row.until > now) {
      return row.token === null ? { state: 'delivered' } : { state: 'in flight', retryInMs: row.until - now }
    }
    if (row === undefined && this.#rows >= maxRows && this.#forget(maxRows, now) === 0) return { state: 'full' }
    await this.#write(key, token, now + leaseMs, row !== undefined, alarm)
    return { state: 'claimed' }
  }

  /**
   * Remembers a delivery that the receiver took. Also when another request holds the lease by now: its receiver is the
   * same, and a third request need not be forwarded.
   */
  async remember(key: string, rememberMs: number): Promise<void> {
    const alarm = await this.ctx.storage.getAlarm()
    const isKnown = this.#sql.exec('select 1 from delivery where key = ?', key).toArray().length > 0
    await this.#write(key, null, Date.now() + rememberMs, isKnown, alarm)
  }

  /** Ends the lease of a delivery that the receiver did not take. */
  async release(key: string, token: string): Promise<void> {
    this.#rows -= this.#deleted('delete from delivery where key = ? and token = ? returning 1', key, token)
  }

  /** Deletes rows whose time is over, a bounded number at once. */
  override async alarm(): Promise<void> {
    const now = Date.now()
    const expired = 'select key from delivery where until <= ? order by until limit ?'
    const deleted = this.#deleted(`delete from delivery where key in (${expired}) returning 1`, now, sweepRows)
    this.#rows -= deleted
    if (deleted === sweepRows) return this.ctx.storage.setAlarm(now)
    const next = this.#sql.exec<{ at: number | null }>('select min(until) as at from delivery').one().at
    if (next !== null) await this.ctx.storage.setAlarm(Math.max(next, now + sweepEveryMs))
  }

  async status(): Promise<{ readonly ids: number }> {
    return { ids: this.#rows }
  }

  /** Nothing is awaited between reading the rows and this, so that no other call comes between. */
  async #write(
    key: string,
    token: string | null,
    until: number,
    isKnown: boolean,
    alarm: number | null,
  ): Promise<void> {
    this.#sql.exec('insert or replace into delivery (key, token, until) values (?, ?, ?)', key, token, until)
    if (!isKnown) this.#rows++
    if (alarm === null) await this.ctx.storage.setAlarm(until + sweepEveryMs)
  }

  /** Forgets the deliveries whose time ends first. A lease is never forgotten. */
  #forget(maxRows: number, now: number): number {
    const share = Math.max(1, Math.ceil(maxRows * forgottenShare))
    const oldest = 'select key from delivery where token is null or until <= ? order by until limit ?'
    const forgotten = this.#deleted(`delete from delivery where key in (${oldest}) returning 1`, now, share)
    this.#rows -= forgotten
    if (forgotten > 0) console.warn(JSON.stringify({ event: 'ids forgotten early', ids: forgotten, limit: maxRows }))
    return forgotten
  }

  #deleted(statement: string, ...values: (string | number)[]): number {
    return this.#sql.exec(statement, ...values).toArray().length
  }
}
