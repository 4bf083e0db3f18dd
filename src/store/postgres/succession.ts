import type pg from 'pg'
import { FormerPrimaryError, StandbyError } from './trouble.ts'

/** The part that a server plays. */
export interface Standing {
  /** Whether it follows another server, and takes no writes. */
  readonly isStandby: boolean
  /** Whether its transactions are read-only unless they ask otherwise. */
  readonly isReadOnly: boolean
  /** The cluster: a server, its standbys and their copies have one identifier. */
  readonly system: string
  /** It grows with each promotion; null on a standby. */
  readonly timeline: string | null
}

export const standingColumns = `
  pg_is_in_recovery() as "isStandby", current_setting('transaction_read_only') = 'on' as "isReadOnly",
  (select system_identifier::text from pg_control_system()) as system,
  case when not pg_is_in_recovery() then substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) end as timeline`

export async function standingOf(client: pg.ClientBase): Promise<Standing> {
  const { rows } = await client.query<Standing>(`select ${standingColumns}`)
  return rows[0] as Standing
}

/**
 * The primaries that this process has used, one after the other. After a failover the one before may come back, and take writes
 * that are lost as soon as it follows its successor: once a successor was seen, nothing is written to an earlier one.
 */
export class Succession {
  #system = ''
  #timeline = ''
  /** Clusters that were left for another one. */
  readonly #left = new Set<string>()
  /** The open connections. */
  readonly #clients = new Set<pg.ClientBase>()

  /** Whether a later primary than this one was seen. */
  isFormer({ system, timeline }: Standing): boolean {
    return this.#left.has(system) || (system === this.#system && (timeline ?? '') < this.#timeline)
  }

  /** Whether this primary was promoted after the one in use. */
  isLater({ system, timeline }: Standing): boolean {
    return system === this.#system && (timeline ?? '') > this.#timeline
  }

  /**
   * Takes a new connection in. Throws when it leads to a standby or to a former primary. When it leads to a successor, all
   * earlier connections are cut.
   */
  admit(client: pg.ClientBase, standing: Standing): void {
    if (standing.isStandby) throw new StandbyError()
    if (this.isFormer(standing)) throw new FormerPrimaryError()
    this.follow(standing)
    this.#clients.add(client)
    client.once('end', () => this.#clients.delete(client))
  }

  /** A primary that is no former one is used from now on. */
  follow({ system, timeline }: Standing): void {
    if (system === this.#system && timeline === this.#timeline) return
    if (this.#system !== '' && system !== this.#system) this.#left.add(this.#system)
    this.#system = system
    this.#timeline = timeline ?? ''
    for (const client of this.#clients) cut(client)
    this.#clients.clear()
  }
}

/** Ends a connection without a word to the server, which may not answer. */
export function cut(client: pg.ClientBase): void {
  ;(client as pg.Client).connection.stream.destroy()
}
