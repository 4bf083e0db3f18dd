import type { EpochMs } from '../../domain/clock.ts'
import { firstKeyAt } from '../../domain/ids.ts'
import { locks } from '../sql/dialect.ts'
import type { StoreContext } from '../store.ts'
import { sqlNow } from './database.ts'
import { postgresStatement, type Run, type Sessions } from './sessions.ts'
import { stateOf } from './trouble.ts'

export const dayMs = 24 * 60 * 60 * 1000
/** Days made ahead, so that a database that cannot be altered for a weekend still has a partition for every message. */
const daysAhead = 3

const partitioned = [
  { table: 'message', by: 'key' },
  { table: 'attempt', by: 'message' },
  { table: 'variant', by: 'message' },
  { table: 'coalesced', by: 'message' },
  { table: 'subject', by: 'message' },
] as const

/** The tables that have a partition for every day, and their column with the key of a message. */
export const partitionedColumns: readonly { readonly table: string; readonly by: string }[] = partitioned

/** The statements that make the partitions of a day. */
export function partitionSteps(day: number): { readonly name: string; readonly statements: readonly string[] }[] {
  return partitioned.map(({ table, by }) => {
    const name = partitionName(table, day)
    return { name, statements: makePartition(table, by, name, day) }
  })
}

/** The tables that have a partition for every day. */
export const partitionedTables: readonly string[] = partitioned.map(({ table }) => table)

// Not with to_regclass(): it reads a cache, which may lack a table that another process made a moment ago.
const selectMissing = postgresStatement('missing-partitions')`
  select name from unnest($1::text[]) as name
   where not exists (
     select from pg_class join pg_namespace on pg_namespace.oid = relnamespace
      where relname = name and nspname = current_schema())`
const takeLock = postgresStatement('partitions-lock')`select pg_advisory_xact_lock($1)`
const readClock = postgresStatement('server-clock')`select ${sqlNow} as now`

/** The server's clock. */
export async function serverNow(sessions: Sessions): Promise<EpochMs> {
  const [row] = await sessions.run<{ now: number }>(readClock)
  return row?.now as number
}

/**
 * Makes the partitions of today and the days to come that are missing, one transaction per day. Safe when several
 * processes do it at once.
 */
export async function ensurePartitions(sessions: Sessions, now: EpochMs): Promise<void> {
  const today = Math.floor(now / dayMs)
  const days = Array.from({ length: daysAhead + 1 }, (_, i) => today + i)
  const names = days.flatMap((day) => partitioned.map(({ table }) => partitionName(table, day)))
  const missing = await missingOf(sessions.run, names)
  for (const day of days) {
    if (partitioned.some(({ table }) => missing.has(partitionName(table, day)))) await makeDay(sessions, day)
  }
}

async function makeDay(sessions: Sessions, day: number): Promise<void> {
  try {
    await sessions.transaction(async (run) => {
      await run(takeLock, [locks.partitions])
      const names = partitioned.map(({ table }) => partitionName(table, day))
      const missing = await missingOf(run, names)
      for (const { table, by } of partitioned) {
        const name = partitionName(table, day)
        if (missing.has(name)) for (const text of makePartition(table, by, name, day)) await run({ name: '', text })
      }
    })
  } catch (error) {
    // The default partition already has rows of that day: they stay there, and so will the rest of the day's.
    if (stateOf(error) !== '23514') throw error
  }
}

/**
 * Made beside the table and then attached, which lets publishing go on meanwhile: `create table … partition of` would
 * lock the whole table. The check proves the range, so that attaching does not have to read the rows.
 */
function makePartition(table: string, by: string, name: string, day: number): string[] {
  const from = firstKeyAt(day * dayMs)
  const to = firstKeyAt((day + 1) * dayMs)
  return [
    `create table ${name} (like ${table} including all)`,
    `alter table ${name} add constraint ${name}_range check (${by} >= ${from} and ${by} < ${to})`,
    `alter table ${table} attach partition ${name} for values from (${from}) to (${to})`,
    `alter table ${name} drop constraint ${name}_range`,
  ]
}

async function missingOf(run: Run, names: readonly string[]): Promise<Set<string>> {
  const rows = await run<{ name: string }>(selectMissing, [names])
  return new Set(rows.map((row) => row.name))
}

/** The name carries the day in UTC, as keys do: `message_20261115`. */
export function partitionName(table: string, day: number): string {
  return `${table}_${new Date(day * dayMs).toISOString().slice(0, 10).replaceAll('-', '')}`
}

/** Makes partitions in the background while a store is used. */
export interface PartitionKeeper {
  /** Looks at the days to come, unless it did so within the last hour. Never waited for, never fails its caller. */
  keep(now: EpochMs): void
  /** Resolves when nothing is under way any more. */
  idle(): Promise<void>
}

const hourMs = 60 * 60 * 1000

export function keepPartitions(sessions: Sessions, { clock, onTrouble }: StoreContext): PartitionKeeper {
  let lookedAt = clock.steady()
  let underWay: Promise<void> = Promise.resolve()
  return {
    keep(now) {
      if (clock.steady() - lookedAt < hourMs) return
      lookedAt = clock.steady()
      underWay = ensurePartitions(sessions, now).catch((error) => {
        onTrouble?.(
          `postgres: the partitions of the coming days could not be made, trying again later: ${error.message}`,
        )
      })
    },
    idle: () => underWay,
  }
}
