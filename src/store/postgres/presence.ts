import type pg from 'pg'
import { hasSessionEnded, lockOfWorker, serverStart } from '../sql/dialect.ts'
import type { StoreContext } from '../store.ts'
import type { Signals } from './signals.ts'

/** A process looks this often whether the sessions of other workers have ended. */
const lookEveryMs = 200
/** A worker is gone when its session ended and has not come back for this long. */
const goneAfterMs = 400

const enter = `
  with own as materialized (select pg_try_advisory_lock(${lockOfWorker('$1::bigint')}) as is_held)
  update worker set session = ${serverStart}
   where id = $1 and ended_at is null and (select is_held from own)
  returning 1`

const exit = `select pg_advisory_unlock(${lockOfWorker('$1::bigint')})`

/**
 * The next two workers behind this process's, round the list: together the processes look at all, each at few. To its own
 * workers its session would say that their locks are free, because it may take them twice.
 */
const look = `
  with near as materialized (
    (select id, session from worker where ended_at is null and id > $1 and id <> all ($2::bigint[]) order by id limit 2)
    union
    (select id, session from worker where ended_at is null and id < $1 and id <> all ($2::bigint[]) order by id limit 2)
  )
  select id from near where ${hasSessionEnded.postgres}`

/**
 * The presence of this process's workers at the server. The connection that listens holds a lock for each; the server frees
 * it when the process dies, long before the lease runs out, and another process that finds it free ends the worker. The
 * lease remains for a network that falls silent and for a process that stands still: both leave the connection open.
 */
export class Presence {
  readonly #context: StoreContext
  readonly #signals: Signals
  /** The workers of this process, each with whether this connection holds its lock. */
  readonly #own = new Map<number, boolean>()
  /** Workers whose session had ended at a look, with the instant of the first such look. */
  #missing = new Map<number, number>()
  #client: pg.Client | undefined
  #cancelLook: (() => void) | undefined
  #endGone: (workers: readonly number[]) => Promise<unknown> = async () => {}

  constructor(context: StoreContext, signals: Signals) {
    this.#context = context
    this.#signals = signals
  }

  /** Ends workers whose session is gone, by a transaction that looks once more. */
  set endGone(endGone: (workers: readonly number[]) => Promise<unknown>) {
    this.#endGone = endGone
  }

  /** A worker of this process has joined. */
  async enter(worker: number): Promise<void> {
    this.#own.set(worker, false)
    await this.#hold(worker)
    this.#lookLater()
  }

  /** A worker of this process has left, or was declared dead. */
  async exit(worker: number): Promise<void> {
    const held = this.#own.get(worker)
    this.#own.delete(worker)
    if (this.#own.size === 0) this.#stopLooking()
    if (held) await this.#client?.query(exit, [worker]).catch(() => {})
  }

  /** A connection is open for as long as this process can use the server. */
  async connected(client: pg.Client): Promise<void> {
    this.#client = client
    for (const worker of this.#own.keys()) await this.#hold(worker)
    if (this.#own.size > 0) this.#signals.sessionHeld()
    this.#lookLater()
  }

  /** The connection was lost: the server may let others end the workers of this process soon. */
  disconnected(): void {
    this.#client = undefined
    this.#stopLooking()
    const wasHeld = [...this.#own.values()].some((held) => held)
    for (const worker of this.#own.keys()) this.#own.set(worker, false)
    if (wasHeld) this.#signals.sessionLost()
  }

  close(): void {
    this.#own.clear()
    this.#stopLooking()
  }

  /** The server may still know the connection before this one, which then holds the lock: the next look tries again. */
  async #hold(worker: number): Promise<void> {
    const client = this.#client
    const held = await client?.query(enter, [worker]).catch(() => undefined)
    if (this.#client === client && this.#own.has(worker)) this.#own.set(worker, held?.rowCount === 1)
  }

  #lookLater(): void {
    if (this.#own.size === 0 || this.#client === undefined) return
    this.#cancelLook ??= this.#context.clock.after(lookEveryMs, () => {
      this.#cancelLook = undefined
      void this.#look().then(() => this.#lookLater())
    })
  }

  #stopLooking(): void {
    this.#cancelLook?.()
    this.#cancelLook = undefined
    this.#missing.clear()
  }

  /** Never rejects: a look that fails is followed by another, and a lost connection is reported by its own event. */
  async #look(): Promise<void> {
    const client = this.#client
    const [own] = this.#own.keys()
    if (client === undefined || own === undefined) return
    try {
      for (const [worker, held] of this.#own) if (!held) await this.#hold(worker)
      const { rows } = await client.query<{ id: number }>(look, [own, [...this.#own.keys()]])
      const now = this.#context.clock.steady()
      this.#missing = new Map(rows.map(({ id }) => [id, this.#missing.get(id) ?? now]))
      const gone = [...this.#missing].filter(([, since]) => now - since >= goneAfterMs).map(([id]) => id)
      if (gone.length > 0) await this.#endGone(gone)
    } catch (error) {
      this.#context.onTrouble?.(`postgres: the sessions of other workers cannot be seen: ${(error as Error).message}`)
    }
  }
}
