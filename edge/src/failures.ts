import type { HeaderPair } from './incoming.ts'
import type { Storing } from './route.ts'

/** A request that its target did not take in time. */
export interface Failure {
  readonly failure: number
  readonly id: string
  readonly reason: string
  readonly attempts: number
  readonly arrivedAt: string
  readonly failedAt: string
  readonly bytes: number
}

interface Row extends Record<string, SqlStorageValue> {
  readonly seq: number
  readonly id: string
  readonly reason: string
  readonly attempts: number
  readonly arrived: number
  readonly failed: number
  readonly bytes: number
}

/** The failures of one outbox, bounded in number, bytes and age. */
export class Failures {
  readonly #sql: SqlStorage
  #count: number
  #bytes: number

  constructor(sql: SqlStorage) {
    this.#sql = sql
    // Bodies come last: SQLite reads through a body to reach the columns behind it.
    sql.exec(`
      create table if not exists failure (
        seq integer primary key autoincrement, id text not null, bytes integer not null, arrived integer not null,
        failed integer not null, attempts integer not null, reason text not null,
        query text not null, headers text not null, body blob not null)`)
    const sums = 'select count(*) as n, coalesce(sum(bytes), 0) as bytes from failure'
    ;({ n: this.#count, bytes: this.#bytes } = sql.exec<{ n: number; bytes: number }>(sums).one())
  }

  get count(): number {
    return this.#count
  }

  /** Copies a parcel into the failures. Answers how many old failures had to go to make room. */
  keep(parcel: number, reason: string, now: number, { maxFailures, maxStoredBytes }: Storing): number {
    const { bytes } = this.#sql
      .exec<{ bytes: number }>(
        `insert into failure (id, bytes, arrived, failed, attempts, reason, query, headers, body)
           select id, bytes, arrived, ?, attempts, ?, query, headers, body from parcel where seq = ? returning bytes`,
        ...[now, reason, parcel],
      )
      .one()
    this.#count++
    this.#bytes += bytes
    const before = this.#count
    while (this.#count > maxFailures || this.#bytes > maxStoredBytes) {
      if (this.#delete('seq = (select min(seq) from failure)') === 0) break
    }
    return before - this.#count
  }

  /** Failures before a number, the newest first, without their bodies. */
  list(before: number, limit: number): Failure[] {
    const columns = 'seq, id, reason, attempts, arrived, failed, bytes'
    const statement = `select ${columns} from failure where seq < ? order by seq desc limit ?`
    const rows = this.#sql.exec<Row>(statement, before, limit).toArray()
    return rows.map(({ seq, arrived, failed, id, reason, attempts, bytes }) => ({
      failure: seq,
      id,
      reason,
      attempts,
      arrivedAt: new Date(arrived).toISOString(),
      failedAt: new Date(failed).toISOString(),
      bytes,
    }))
  }

  /** The request of a failure as it came; undefined when there is no such failure. */
  read(failure: number): { readonly headers: HeaderPair[]; readonly body: ArrayBuffer } | undefined {
    const [row] = this.#sql
      .exec<{ headers: string; body: ArrayBuffer }>('select headers, body from failure where seq = ?', failure)
      .toArray()
    return row && { headers: JSON.parse(row.headers), body: row.body }
  }

  /** Answers whether there was such a failure. */
  delete(failure: number): boolean {
    return this.#delete('seq = ?', failure) > 0
  }

  /** Deletes failures that were kept long enough. */
  sweep(keepMs: number, now: number): void {
    this.#delete('failed <= ?', now - keepMs)
  }

  /** When the oldest failure failed; undefined when there is none. */
  oldest(): number | undefined {
    return this.#sql.exec<{ failed: number }>('select failed from failure order by seq limit 1').toArray()[0]?.failed
  }

  #delete(condition: string, ...values: number[]): number {
    const statement = `delete from failure where ${condition} returning bytes`
    const deleted = this.#sql.exec<{ bytes: number }>(statement, ...values).toArray()
    this.#count -= deleted.length
    for (const { bytes } of deleted) this.#bytes -= bytes
    return deleted.length
  }
}
