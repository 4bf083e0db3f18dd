import { firstKeyAt } from '../../domain/ids.ts'
import { nothingRetained, type Retained } from '../maintenance.ts'
import { messageTables } from '../sql/message-rows.ts'
import { waitFor } from '../sql/port.ts'
import type { RemoveHistory } from '../sql/retention.ts'
import { StoreTrouble } from '../store.ts'
import type { Database } from './database.ts'
import { dayMs, partitionedTables, partitionName, serverNow } from './partitions.ts'
import { integers, type PostgresStatement, postgresStatement, type Run, texts } from './sessions.ts'
import { stateOf } from './trouble.ts'

// The tables of days, the oldest first, and whether they are still attached.
const selectDays = postgresStatement('days')`
  select relname as name, relispartition as attached
    from pg_class join pg_namespace on pg_namespace.oid = relnamespace
   where nspname = current_schema() and relkind = 'r' and relname ~ '^[a-z]+_[0-9]{8}$'
   order by right(relname, 8)`
/**
 * Whether a message of a range still waits, is being expanded, or has a dead letter. Most of these tables have no index by message, so they are read as a whole: once a day for a day, in the background.
 */
const selectKept = postgresStatement('kept-of-day')`
  select exists (select from pending where message >= $1 and message < $2)
      or exists (select from dead where message >= $1 and message < $2)
      or exists (select from fan_out where message >= $1 and message < $2) as kept`
// For these two statements alone: reading all of a table by its index is slower than reading it.
const readWhole: PostgresStatement = { name: '', text: `set local enable_seqscan = on` }
const readLong: PostgresStatement = { name: '', text: `set local statement_timeout = '14s'` }
const waitShortly: PostgresStatement = { name: '', text: `set local lock_timeout = '200ms'` }
const deleteEventIds = postgresStatement('delete-event-ids')`
  delete from event_id where ctid = any (array (
    select e.ctid from unnest($1::bigint[], $2::text[], $3::bigint[]) as old (app, event_id, message)
     cross join lateral (
             select ctid from event_id
              where app = old.app and event_id = old.event_id and message = old.message limit 1
           ) as e))`
// Messages in the default partition: they were stored while the partition of their day could not be made.
const selectStrays = postgresStatement('stray-messages')`
  select key, app, event_id from message_default where key > $1 and key < $2 order by key limit $3`
const selectKeptOf = postgresStatement('kept-of')`
  select message from pending where message = any ($1::bigint[])
  union select message from dead where message = any ($1::bigint[])
  union select message from fan_out where message = any ($1::bigint[])`
// Leans on message_app: one probe for each application.
const selectHolders = postgresStatement('holders-of-day')`
  select app from unnest($1::bigint[]) as keeper (app)
   where (select 1 from message where message.app = keeper.app and key >= $2 and key < $3 limit 1) = 1`
const deletesOf: readonly PostgresStatement[] = ['message', ...messageTables].map(
  (table) =>
    postgresStatement(`delete-old-${table}`)`
    delete from ${table} where ${table === 'message' ? 'key' : 'message'} = any ($1::bigint[])`,
)
const deletePayloadEndsBetween = postgresStatement('delete-payload-ends-between')`
  delete from payload_end where message >= $1 and message < $2`

const rowsPerStep = 1000
const eventIdsPerStep = 2000
/** How soon a day that has rows to keep is checked again, and one of which other applications' rows were removed. */
const keptMs = 60 * 60 * 1000
const thinnedMs = 24 * keptMs

interface OldMessage {
  readonly key: number
  readonly app: number
  readonly event_id: string | null
}

/** Makes the removal of old messages: a day at a time, by dropping its partitions. */
export function historyRemover({ durable, relaxed, context }: Database): RemoveHistory {
  /** Days that have rows to keep, and when they are checked again. */
  const keptUntil = new Map<string, number>()
  /** How far a day was read of which some applications keep their messages. */
  let thinned: { readonly day: string; key: number } | undefined
  /** How far the event ids of a day have been removed. */
  let reached: { readonly day: string; key: number } | undefined
  /** How far the default partition was read. */
  let strayKey = 0

  async function hasToKeep(from: number, to: number): Promise<boolean> {
    return relaxed.transaction(async (run) => {
      await run(readLong)
      await run(readWhole)
      const [row] = await run<{ kept: boolean }>(selectKept, [from, to])
      return row?.kept === true
    })
  }

  /** Frees the event ids of a day's messages; answers whether all are free. */
  async function freeEventIds(day: string, table: string): Promise<boolean> {
    if (reached?.day !== day) reached = { day, key: 0 }
    const rows = await relaxed.run<OldMessage>(messagesOf(table, 'and event_id is not null'), [
      reached.key,
      eventIdsPerStep,
    ])
    await removeEventIds(relaxed.run, rows)
    reached.key = rows.at(-1)?.key ?? reached.key
    return rows.length < eventIdsPerStep
  }

  /** Which applications that keep messages longer have any of a range. */
  async function holdersOf(keptFrom: ReadonlyMap<number, number>, from: number, to: number): Promise<Set<number>> {
    const keepers = [...keptFrom].filter(([, key]) => key < to).map(([app]) => app)
    if (keepers.length === 0) return new Set()
    const rows = await relaxed.run<{ app: number }>(selectHolders, [integers(keepers), from, to])
    return new Set(rows.map(({ app }) => app))
  }

  /** Removes some rows of a day that its holders keep; undefined when it was read to its end. */
  async function thinOut(day: string, table: string, holders: ReadonlySet<number>): Promise<Retained | undefined> {
    if (thinned?.day !== day) thinned = { day, key: 0 }
    const rows = await relaxed.run<OldMessage>(messagesOf(table), [thinned.key, rowsPerStep])
    const last = rows.at(-1)
    if (last === undefined) {
      keptUntil.set(day, context.clock.steady() + thinnedMs)
      thinned = undefined
      return undefined
    }
    const others = rows.filter(({ app }) => !holders.has(app))
    const removed = others.length === 0 ? 0 : await relaxed.transaction((run) => removeSome(run, others))
    thinned.key = last.key
    return { removed, more: true }
  }

  /** Drops the tables of a day; undefined when the day has rows to keep. */
  async function dropDay(
    day: string,
    tables: readonly DayTable[],
    keptFrom: ReadonlyMap<number, number>,
  ): Promise<Retained | undefined> {
    const attached = tables.filter((table) => table.attached)
    if (attached.length > 0) {
      const start = Date.parse(`${day.slice(0, 4)}-${day.slice(4, 6)}-${day.slice(6)}`)
      const [from, to] = [firstKeyAt(start), firstKeyAt(start + dayMs)]
      const holders = await holdersOf(keptFrom, from, to)
      if (holders.size > 0) return thinOut(day, partitionName('message', start / dayMs), holders)
      if (await hasToKeep(from, to)) {
        keptUntil.set(day, context.clock.steady() + keptMs)
        return undefined
      }
      const messages = attached.find(({ name }) => name.startsWith('message_'))?.name
      if (messages && !(await freeEventIds(day, messages))) return { ...nothingRetained, more: true }
      await relaxed.run(deletePayloadEndsBetween, [from, to])
      // Detaching locks the table for a moment, and a statement that waits for a lock makes all others wait behind it. So
      // this one gives up soon, and the next step tries again.
      await durable.transaction(async (run) => {
        await run(waitShortly)
        for (const { table, name } of attached)
          await run({ name: '', text: `alter table ${table} detach partition ${name}` })
      })
    }
    // A detached table blocks nothing. A table that a crash left behind is found by its name.
    for (const { name } of tables) await durable.run({ name: '', text: `drop table if exists ${name}` })
    return { removed: tables.length, more: true }
  }

  /** Removes old messages of the default partition. */
  async function removeStrays(cutoff: number, keptFrom: ReadonlyMap<number, number>): Promise<Retained> {
    return relaxed.transaction(async (run) => {
      const rows = await run<OldMessage>(selectStrays, [strayKey, cutoff, rowsPerStep])
      const last = rows.at(-1)
      strayKey = last?.key ?? 0
      if (last === undefined) return nothingRetained
      const old = rows.filter(({ key, app }) => key < (keptFrom.get(app) ?? cutoff))
      return { removed: old.length === 0 ? 0 : await removeSome(run, old), more: true }
    })
  }

  async function removeHistory(historyMs: number, longer: ReadonlyMap<number, number>): Promise<Retained> {
    const now = await serverNow(durable)
    const firstKeptOf = (ms: number) => firstKeyAt(Math.max(0, Math.floor(now - ms)))
    const keptFrom = new Map([...longer].map(([app, ms]) => [app, firstKeptOf(ms)]))
    const strays = await removeStrays(firstKeptOf(historyMs), keptFrom)
    if (strays.more) return strays
    const lastDay = partitionName('', Math.floor((now - historyMs) / dayMs) - 1).slice(1)
    const days = await daysUntil(relaxed.run, lastDay)
    for (const [day, tables] of days) {
      if (context.clock.steady() < (keptUntil.get(day) ?? 0)) continue
      try {
        const done = await dropDay(day, tables, keptFrom)
        if (done) return done
      } catch (error) {
        if (!(error instanceof StoreTrouble) || stateOf(error.cause) !== '55P03') throw error
        return nothingRetained
      }
    }
    return nothingRetained
  }

  return (historyMs, longer) => waitFor(removeHistory(historyMs, longer))
}

/** Removes unreferenced messages with their rows; returns their number. */
async function removeSome(run: Run, rows: readonly OldMessage[]): Promise<number> {
  await run(readLong)
  await run(readWhole)
  const kept = await run<{ message: number }>(selectKeptOf, [integers(rows.map((row) => row.key))])
  const keys = new Set(kept.map((row) => row.message))
  const old = rows.filter((row) => !keys.has(row.key))
  await removeEventIds(run, old)
  for (const statement of deletesOf) await run(statement, [integers(old.map((row) => row.key))])
  return old.length
}

async function removeEventIds(run: Run, messages: readonly OldMessage[]): Promise<void> {
  const named = messages.filter((row) => row.event_id !== null)
  if (named.length === 0) return
  await run(deleteEventIds, [
    integers(named.map((row) => row.app)),
    texts(named.map((row) => row.event_id)),
    integers(named.map((row) => row.key)),
  ])
}

interface DayTable {
  readonly table: string
  readonly name: string
  readonly attached: boolean
}

/** The tables of each day up to one, the oldest first; days are written as in the names of their tables. */
async function daysUntil(run: Run, last: string): Promise<Map<string, DayTable[]>> {
  const days = new Map<string, DayTable[]>()
  for (const { name, attached } of await run<{ name: string; attached: boolean }>(selectDays)) {
    const [table = '', day = ''] = name.split('_')
    if (!partitionedTables.includes(table) || day > last) continue
    const tables = days.get(day) ?? []
    tables.push({ table, name, attached })
    days.set(day, tables)
  }
  return days
}

/** Leans on the partition's primary key. */
function messagesOf(table: string, condition = ''): PostgresStatement {
  return { name: '', text: `select key, app, event_id from ${table} where key > $1 ${condition} order by key limit $2` }
}
