import type { EpochMs } from '../../domain/clock.ts'
import { timed } from '../../domain/delivery.ts'
import { closingMs } from '../maintenance.ts'
import type { Special } from '../publishing.ts'
import { isAmong, sqlNow, withClock } from './database.ts'
import { integers, type PostgresStatement, postgresStatement, type Run, texts } from './sessions.ts'

/** How long a statement may have waited for a window's row since it read the clock. */
const longestWaitMs = 10_000

// A window that seems to end later than it can was opened before the clock was set back, or when windows were longer.
const isOpen = `(c.due_at > (select now from clock) + ${closingMs} and c.due_at <= excluded.due_at + ${longestWaitMs})`

/**
 * Opens windows or joins open ones, and locks the row of each window until the transaction ends: another transaction with a
 * message of that kind waits, and then finds this one. Every transaction takes windows in one order, so that no two
 * deadlock. A late message leaves a newer one in place.
 */
function joinStatement(name: string, isLate: boolean): PostgresStatement {
  const staysInPlace = isLate ? 'c.message > excluded.message' : 'false'
  return postgresStatement(name)`
    ${withClock}
    insert into coalescing as c (endpoint, key, message, replaced, due_at)
    select endpoint, key, message, null, now + window_ms
      from clock, unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[]) as j (endpoint, key, message, window_ms)
     order by endpoint, key
    on conflict (endpoint, key) do update
      set replaced = case when ${isOpen} then case when ${staysInPlace} then excluded.message else c.message end end,
          message = case when ${isOpen} and ${staysInPlace} then c.message else excluded.message end,
          due_at = case when ${isOpen} then c.due_at else excluded.due_at end
    returning endpoint, key, message, replaced, due_at`
}
const joinWindows = joinStatement('join-windows', false)
const joinWindowsLate = joinStatement('join-windows-late', true)

/**
 * A second statement, because the row that the last transaction queued is not visible to the statement that waited for it,
 * and the window may have ended during that wait. Rows are found by their whole primary key and deleted by their place, as
 * in a settle. A missing row was replayed or expunged meanwhile; a delivery that was tried no longer waits for the end of
 * its window.
 */
const replaceWaiting = postgresStatement('replace-waiting')`
  ${withClock}, found as materialized (
    select r.*, p.place
      from clock,
           unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) as r (endpoint, due_at, replaced, successor)
     cross join lateral (
             select ctid as place from pending
              where endpoint = r.endpoint and class = ${timed} and due_at = r.due_at and message = r.replaced
                and attempts = 0
              limit 1
           ) as p
     where r.due_at > clock.now + ${closingMs}
  ), taken as (
    delete from pending where ctid = any (array (select place from found))
    returning ctid as place
  ), ended as (
    insert into coalesced (message, endpoint, at, successor)
    select replaced, endpoint, now, successor from clock, found where ${isAmong('place', 'select place from taken')}
    on conflict (message, endpoint) do update set at = excluded.at, successor = excluded.successor
    returning message, endpoint
  )
  select endpoint, message from ended`

const endAtOnce = postgresStatement('end-at-once')`
  insert into coalesced (message, endpoint, at, successor)
  select message, endpoint, ${sqlNow}, successor
    from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as e (message, endpoint, successor)
  on conflict (message, endpoint) do update set at = excluded.at, successor = excluded.successor`

const findWaiting = postgresStatement('find-waiting')`
  select w.n
    from unnest($1::bigint[], $2::bigint[], $3::bigint[]) with ordinality as w (endpoint, due_at, message, n)
   cross join lateral (
           select from pending
            where endpoint = w.endpoint and class = ${timed} and due_at = w.due_at and message = w.message limit 1
         ) as p`

/** A delivery that is to be coalesced. */
interface Joining extends NonNullable<Special['coalesce']> {
  readonly endpoint: number
  readonly message: number
}

/** When a delivery is due, and whether it replaced another; undefined when a newer one replaced it. */
type Joined = { readonly dueAt: EpochMs; readonly replaces: boolean } | undefined

interface WindowRow {
  readonly endpoint: number
  readonly key: string
  readonly message: number
  /** The older of the two messages, which is replaced; null when the window is new. */
  readonly replaced: number | null
  readonly due_at: EpochMs
}

/**
 * Deliveries join their windows or open new ones, in the order of acceptance, inside the caller's transaction; the caller
 * queues them. Late deliveries are queued some time after they were accepted, as those of wide messages are.
 */
export async function joinAll(run: Run, joining: readonly Joining[], areLate: boolean): Promise<Joined[]> {
  // Of several deliveries of one kind only the last is queued; the others are replaced before.
  const last = new Map(joining.map((each) => [kindOf(each), each]))
  const overtaken = joining.filter((each) => last.get(kindOf(each)) !== each)
  const found = await run<WindowRow>(areLate ? joinWindowsLate : joinWindows, valuesOf([...last.values()]))
  const windows = new Map(found.map((row) => [kindOf(row), row]))
  const replaced = await replace(run, found, last)
  const stays = areLate ? await overtakenBy(run, found, last) : none
  await end(run, [
    ...overtaken.map((each) => ({ ...each, successor: last.get(kindOf(each))?.message as number })),
    ...[...stays].map((row) => ({ ...(last.get(kindOf(row)) as Joining), successor: row.message })),
  ])
  return joining.map((each) => {
    const row = windows.get(kindOf(each)) as WindowRow
    if (last.get(kindOf(each)) !== each || stays.has(row)) return undefined
    return { dueAt: row.due_at, replaces: replaced.has(row) }
  })
}

const none: ReadonlySet<WindowRow> = new Set()

/** Removes the deliveries that are replaced from their queues; answers the windows in which there was one. */
async function replace(
  run: Run,
  found: readonly WindowRow[],
  last: ReadonlyMap<string, Joining>,
): Promise<Set<WindowRow>> {
  const rows = found.filter((row) => row.replaced !== null && row.message === last.get(kindOf(row))?.message)
  if (rows.length === 0) return new Set()
  const ended = await run<{ endpoint: number; message: number }>(replaceWaiting, [
    integers(rows.map((row) => row.endpoint)),
    integers(rows.map((row) => row.due_at)),
    integers(rows.map((row) => row.replaced)),
    integers(rows.map((row) => row.message)),
  ])
  const gone = new Set(ended.map(({ endpoint, message }) => `${endpoint} ${message}`))
  return new Set(rows.filter((row) => gone.has(`${row.endpoint} ${row.replaced}`)))
}

/** The windows in which a delivery that is newer than the late one still waits. */
async function overtakenBy(
  run: Run,
  found: readonly WindowRow[],
  last: ReadonlyMap<string, Joining>,
): Promise<Set<WindowRow>> {
  const rows = found.filter((row) => row.message !== last.get(kindOf(row))?.message)
  if (rows.length === 0) return new Set()
  const waiting = await run<{ n: number }>(findWaiting, [
    integers(rows.map((row) => row.endpoint)),
    integers(rows.map((row) => row.due_at)),
    integers(rows.map((row) => row.message)),
  ])
  return new Set(waiting.map(({ n }) => rows[n - 1] as WindowRow))
}

async function end(run: Run, list: readonly (Joining & { readonly successor: number })[]): Promise<void> {
  if (list.length === 0) return
  await run(endAtOnce, [
    integers(list.map((each) => each.message)),
    integers(list.map((each) => each.endpoint)),
    integers(list.map((each) => each.successor)),
  ])
}

function valuesOf(joining: readonly Joining[]): unknown[] {
  return [
    integers(joining.map((each) => each.endpoint)),
    texts(joining.map((each) => each.key)),
    integers(joining.map((each) => each.message)),
    integers(joining.map((each) => Math.ceil(each.windowMs))),
  ]
}

/** The endpoint and key that coalescing deliveries share. */
function kindOf({ endpoint, key }: { readonly endpoint: number; readonly key: string }): string {
  return `${endpoint} ${key}`
}
