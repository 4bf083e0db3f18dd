import { NoticeInterest, writeNotices } from '../../features/notices/rows.ts'
import { disabledNotice, type Notice } from '../../features/notices/rules.ts'
import { blockedUntil, type Delivering, type LaneEffects, type Settlement, skipMark } from '../delivering.ts'
import { longestRestMs } from '../lanes.ts'
import { finishLater } from '../sql/port.ts'
import { type Database, sqlNow, withClock } from './database.ts'
import { sqlOver } from './port.ts'
import { booleans, integers, postgresStatement, type Run, texts } from './sessions.ts'
import {
  isCounted,
  type SettleAnswer,
  settlingAny,
  settlingDelivered,
  stays,
  valuesOfRows,
  wasOvertaken,
} from './settle-statement.ts'

/**
 * An operator's command changes a row, and a row that is changed while it is being settled has another place by then. The
 * lock is taken before settling reads the rows, so that they stay where it finds them.
 */
const lockRows = postgresStatement('lock-rows')`
    select l.message
      from unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[]) as l (endpoint, class, due_at, message)
     cross join lateral (
             select from pending
              where endpoint = l.endpoint and class = l.class and due_at = l.due_at and message = l.message
              limit 1 for update
           ) as p`

/** A column of `held`, which holds arrays, for the row at hand. Its place is found by halving: the arrays are in its order. */
function sqlOfHeld(column: string): string {
  return `(select ${column} from held)[width_bucket(ctid, (select places from held))]`
}

// Settled twice, it would be counted twice, but for the count of all attempts that it must have. When an operator had it retried
// while it was being sent, that attempt counts as one before the retry.
const holdRows = postgresStatement('hold-rows')`
    ${withClock}, found as materialized (
      select p.place, p.attempts = h.attempts as is_same, p.attempts = h.attempts and h.counts as is_counted,
             coalesce(clock.now + h.wait_ms, ${blockedUntil}) as until
        from clock, unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::integer[], $6::integer[],
                           $7::bigint[], $8::boolean[])
               as h (endpoint, class, due_at, message, attempts, prior_attempts, wait_ms, counts)
       cross join lateral (
               select ctid as place, attempts from pending
                where endpoint = h.endpoint and class = h.class and due_at = h.due_at and message = h.message
                  and prior_attempts + attempts = h.prior_attempts + h.attempts
                limit 1
             ) as p
    ), held as materialized (
      select array_agg(place order by place) as places, array_agg(until order by place) as untils,
             array_agg(is_same order by place) as same, array_agg(is_counted order by place) as counted
        from found
    )
    update pending set
           attempts = attempts + (${sqlOfHeld('counted')})::integer,
           prior_attempts = prior_attempts + (not ${sqlOfHeld('counted')})::integer,
           held_until = case when held_until = ${skipMark} or not ${sqlOfHeld('same')} then held_until
                             else ${sqlOfHeld('untils')} end
     where ctid = any (array (select place from found))`

const saveHealth = postgresStatement('save-health')`
    ${withClock}
    update lane set health = ($2::text[])[array_position($1::bigint[], endpoint)], health_at = (select now from clock)
     where endpoint = any ($1::bigint[])`

const holdLanes = postgresStatement('hold-lanes')`
    ${withClock}
    update lane set hold_until = greatest(
             least(hold_until, (select now from clock) + ${longestRestMs}),
             (select now from clock) + ($2::bigint[])[array_position($1::bigint[], endpoint)])
     where endpoint = any ($1::bigint[])`

// In the order of every change of endpoints: application, endpoint, lane.
const bumpVersions = postgresStatement('bump-versions-of-disabled')`
    update application set version = version + 1
     where key = any (array (select app from endpoint where key = any ($1::bigint[]) and not disabled))`
const disableEndpoints = postgresStatement('disable-endpoints')`
    update endpoint set disabled = true, disabled_reason = ($2::text[])[array_position($1::bigint[], key)],
           updated_at = greatest(${sqlNow}, updated_at + 1)
     where key = any ($1::bigint[]) and not disabled
    returning key, ${sqlNow} as now`
const stopLanes = postgresStatement('stop-lanes')`
  update lane set stopped = true, due_at = null where endpoint = any ($1::bigint[])`

/**
 * Records attempts and their verdicts. Not waiting for the disk is safe here: a settlement lost in a crash of
 * the server is a delivery made once more. Where an order is kept it is not: the delivery would come once more, behind
 * later ones.
 */
export function settling(database: Database): Delivering['settle'] {
  const { durable, relaxed, signals, wakes } = database

  const interest = new NoticeInterest()

  async function settle(
    run: Run,
    worker: number,
    settlements: readonly Settlement[],
    version: number | null,
  ): Promise<Answer> {
    const [row] = await run<SettleAnswer>(...settlingAny(worker, settlements, version))
    if (row?.alive !== true) return 'fenced'
    return row.known ? 'settled' : 'outdated'
  }

  /** Settles a batch in which all were delivered and are still queued; undefined for any other, of which nothing is recorded. */
  async function settlePlainly(
    worker: number,
    settlements: readonly Settlement[],
    version: number | null,
  ): Promise<Answer | undefined> {
    const delivered = version === null ? settlingDelivered(worker, settlements) : undefined
    if (delivered === undefined) return undefined
    try {
      const [row] = await relaxed.run<SettleAnswer>(...delivered)
      if (row?.alive !== true) return 'fenced'
      return row.found ? 'settled' : undefined
    } catch (error) {
      if (!wasOvertaken(error)) throw error
      return undefined
    }
  }

  /** Records the effects on whole endpoints; answers which of them it disabled. */
  async function applyEffects(run: Run, effects: LaneEffects): Promise<number[]> {
    const { holds, disable, health, notices = [] } = effects
    // Lanes are locked last, as by changes of endpoints.
    const disabled = disable.length > 0 ? await disableAll(run, disable) : []
    if (holds.length > 0) await run(holdLanes, valuesOfHolds(holds))
    if (health.length > 0) await run(saveHealth, valuesOfHealth(health))
    if (notices.length + disabled.length > 0) {
      await finishLater(writeNotices(sqlOver(run), database.context, [...notices, ...disabled]))
    }
    return disabled.map((notice) => notice.endpoint)
  }

  async function disableAll(run: Run, disable: LaneEffects['disable']): Promise<Notice[]> {
    const keys = integers(disable.map(({ endpoint }) => endpoint))
    await run(bumpVersions, [keys])
    const reasons = texts(disable.map(({ reason }) => reason))
    const rows = await run<{ key: number; now: number }>(disableEndpoints, [keys, reasons])
    if (rows.length === 0) return []
    const disabled = rows.map((row) => row.key)
    await run(stopLanes, [integers(disabled)])
    await signals.notify(run, 's', disabled)
    return rows.map(({ key, now }) => {
      const { reason, failingMs = 0 } = disable.find(
        ({ endpoint }) => endpoint === key,
      ) as LaneEffects['disable'][number]
      return disabledNotice(key, reason, now - failingMs)
    })
  }

  async function settleOnce(worker: number, settlements: readonly Settlement[], given: LaneEffects): Promise<Answer> {
    let disabled: number[] = []
    const effects = { ...given, notices: interest.keep(given.notices ?? []) }
    const version = interest.versionFor(given.notices ?? [])
    const staying = settlements.filter(stays)
    const ordered = settlements.filter(({ inOrder }) => inOrder)
    const sessions = settlements.some(({ inOrder }) => inOrder) ? durable : relaxed
    const { holds, disable, health, notices } = effects
    const hasEffects =
      ordered.length + staying.length + holds.length + disable.length + health.length + notices.length > 0
    const answer = hasEffects
      ? await sessions.transaction(async (run) => {
          if (ordered.length > 0) await run(lockRows, valuesOfRows(ordered))
          const answer = await settle(run, worker, settlements, version)
          if (answer === 'settled' && staying.length > 0) await run(holdRows, valuesOfStaying(staying))
          if (answer === 'settled') disabled = await applyEffects(run, effects)
          return answer
        })
      : ((await settlePlainly(worker, settlements, version)) ??
        (await settle(sessions.run, worker, settlements, version)))
    if (disabled.length > 0) signals.settings(disabled)
    return answer
  }

  return async (worker, settlements, effects) => {
    let answer = await settleOnce(worker, settlements, effects)
    while (answer === 'outdated') {
      await finishLater(interest.read(sqlOver(relaxed.run)))
      answer = await settleOnce(worker, settlements, effects)
    }
    if (answer === 'fenced') wakes.disowned(worker)
    return answer
  }
}

/** `outdated`: the subscriptions to notices changed, and nothing was recorded. */
type Answer = 'settled' | 'fenced' | 'outdated'

function valuesOfStaying(staying: readonly Settlement[]): unknown[] {
  return [
    ...valuesOfRows(staying),
    integers(staying.map((s) => s.row.attempts)),
    integers(staying.map((s) => s.row.priorAttempts)),
    integers(staying.map(({ verdict }) => ('waitMs' in verdict ? Math.ceil(verdict.waitMs) : null))),
    booleans(staying.map(isCounted)),
  ]
}

/** The latest health of each endpoint, once: a row can be updated only once per statement. */
function valuesOfHealth(health: LaneEffects['health']): [string, string] {
  const last = new Map(health.map((saved) => [saved.endpoint, saved.health]))
  return [integers([...last.keys()]), texts([...last.values()])]
}

/** The longest hold of each endpoint, once: a row can be updated only once per statement. */
function valuesOfHolds(holds: LaneEffects['holds']): [string, string] {
  const longest = new Map<number, number>()
  for (const { endpoint, holdMs } of holds) {
    longest.set(endpoint, Math.max(longest.get(endpoint) ?? 0, Math.ceil(holdMs)))
  }
  return [integers([...longest.keys()]), integers([...longest.values()])]
}
