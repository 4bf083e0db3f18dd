import type { EpochMs } from '../../domain/clock.ts'
import { type DeadLetter, replay } from '../../domain/delivery.ts'
import { counts } from '../../domain/outcome.ts'
import { bumpVersion } from '../../features/applications/rows.ts'
import { NoticeInterest, writeNotices } from '../../features/notices/rows.ts'
import { disabledNotice, type Notice } from '../../features/notices/rules.ts'
import { blockedUntil, type Delivering, type LaneEffects, type Settlement, skipMark, untried } from '../delivering.ts'
import { longestRestMs } from '../lanes.ts'
import { letterColumns } from '../sql/message-rows.ts'
import { finishNow } from '../sql/port.ts'
import type { Connection, Synchronous } from './connection.ts'
import { sqlitePort } from './port.ts'

const selectLive = 'select 1 from worker where id = ? and ended_at is null'
const deletePending = 'delete from pending where endpoint = ? and class = ? and due_at = ? and message = ?'
const takePending = `${deletePending} returning since, attempts, prior_attempts, order_key, expires_at, variant`
const insertPending = `
  insert into pending
    (endpoint, class, due_at, message, since, attempts, prior_attempts, order_key, expires_at, variant)
  values (?, 1, ?, ?, ?, ?, ?, ?, ?, ?)`
// Settled twice, it would be counted twice, but for the count of all attempts that it must have. When an operator had it retried
// while it was being sent, that attempt counts as one before the retry.
const holdPending = `
  update pending set
    held_until = case when held_until = ${skipMark} or attempts <> :attempts then held_until else :until end,
    prior_attempts = prior_attempts + (attempts <> :attempts or not :counts),
    attempts = attempts + (attempts = :attempts and :counts)
  where endpoint = :endpoint and class = :class and due_at = :dueAt and message = :message
    and prior_attempts + attempts = :prior + :attempts`
const insertAttempt = `
  insert into attempt (message, endpoint, n, id, at, duration_ms, status, code, error, response, next_at, trigger,
                       response_headers, timings)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (message, endpoint, n) do nothing`
const insertDead = `insert or replace into dead (${letterColumns}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
const holdLane = 'update lane set hold_until = max(min(hold_until, ?2), ?3) where endpoint = ?1'
const disableEndpoint = `
  update endpoint set disabled = 1, disabled_reason = ?, updated_at = max(?, updated_at + 1)
  where key = ? and disabled = 0
  returning app`
const stopLane = 'update lane set stopped = 1, due_at = null where endpoint = ?'
const saveHealth = 'update lane set health = ?2, health_at = ?3 where endpoint = ?1'

/** Records attempts and their verdicts. */
export function settling(connection: Connection): Synchronous<Delivering>['settle'] {
  const live = connection.prepare<unknown>(selectLive)
  const record = recorder(connection)
  const applyEffects = laneEffects(connection)

  /** A settlement that a power cut undoes is a delivery made once more; only where an order is kept that would break it. */
  function inTransaction<T>(waits: boolean, work: () => T): T {
    return waits ? connection.transaction(work) : connection.relaxedTransaction(work)
  }

  return (worker, settlements, effects) => {
    let disabled: readonly number[] = []
    const waits = settlements.some(({ inOrder }) => inOrder)
    const answer = inTransaction(waits, () => {
      if (live.get(worker) === undefined) return 'fenced'
      const now = connection.now()
      for (const settlement of settlements) record(settlement, now)
      disabled = applyEffects(effects, now)
      return 'settled'
    })
    if (disabled.length > 0) connection.watcher?.settings(disabled)
    return answer
  }
}

interface TakenColumns {
  readonly since: EpochMs
  readonly attempts: number
  readonly prior_attempts: number
  readonly order_key: number | null
  readonly expires_at: EpochMs | null
  readonly variant: number | null
}

type Recorder = (settlement: Settlement, now: EpochMs) => void

/**
 * Records one settlement: the attempt, and the delivery's next state if it was still queued. A delivery no
 * longer queued was settled before, by a call whose answer got lost, or its message was expunged meanwhile: the attempt
 * is then recorded without the receiver's words, which may echo the message.
 */
function recorder(connection: Connection): Recorder {
  const remove = connection.prepare(deletePending)
  const take = connection.prepare<TakenColumns>(takePending)
  const hold = connection.prepare(holdPending)
  const requeue = connection.prepare(insertPending)
  const addAttempt = connection.prepare(insertAttempt)
  const addDead = deadLetterWriter(connection)

  return ({ endpoint, app, row, attempt, verdict }, now) => {
    const { message } = row
    const { status, code, error, response } = attempt ?? untried
    // Rounded up, so that a wait is never undercut.
    const nextAt = 'waitMs' in verdict ? now + Math.ceil(verdict.waitMs) : null
    let isQueued: boolean
    if (verdict.state === 'delayed' || verdict.state === 'blocked') {
      const { class: itsClass, dueAt, attempts, priorAttempts: prior } = row
      const until = nextAt ?? blockedUntil
      const given = { until, endpoint, class: itsClass, dueAt, message, attempts, prior, counts: Number(counts(code)) }
      isQueued = hold.run(given).changes > 0
    } else if (verdict.state === 'delivered') {
      isQueued = remove.run(endpoint, row.class, row.dueAt, message).changes > 0
    } else {
      const taken = take.get(endpoint, row.class, row.dueAt, message)
      isQueued = taken !== undefined
      if (taken !== undefined) end(taken)
    }
    if (attempt === null) return
    addAttempt.run(
      message,
      endpoint,
      row.priorAttempts + row.attempts + 1,
      attempt.id,
      now - Math.round(attempt.startedAgoMs()),
      Math.round(attempt.durationMs),
      status,
      code,
      isQueued ? error : null,
      isQueued ? response : null,
      nextAt,
      row.class === replay ? 'manual' : 'scheduled',
      isQueued ? (attempt.responseHeaders ?? null) : null,
      attempt.timings ?? null,
    )

    function end(taken: TakenColumns): void {
      const attempts = taken.attempts + Number(attempt !== null && counts(code))
      if (verdict.state === 'waiting') {
        const { since, order_key: orderKey, expires_at: expiresAt, variant } = taken
        const prior = taken.prior_attempts + Number(attempt !== null && !counts(code))
        requeue.run(endpoint, nextAt, message, since, attempts, prior, orderKey, expiresAt, variant)
      } else if (verdict.state === 'dead') {
        const { reason } = verdict
        const diedAt = now
        addDead({ endpoint, message, app, reason, attempts, diedAt, since: taken.since, status, code, error, response })
      }
    }
  }
}

/** Makes the function that adds a dead letter, within the caller's transaction. It takes the place of an earlier one. */
export function deadLetterWriter(connection: Connection): (letter: DeadLetter & { readonly since: EpochMs }) => void {
  const add = connection.prepare(insertDead)
  return ({ endpoint, message, app, reason, attempts, diedAt, since, status, code, error, response }) => {
    add.run(endpoint, message, app, reason, attempts, diedAt, since, status, code, error, response)
  }
}

/** Records the effects on lanes; answers the endpoints that it disabled. */
function laneEffects(connection: Connection): (effects: LaneEffects, now: EpochMs) => readonly number[] {
  const hold = connection.prepare(holdLane)
  const disableIt = connection.prepare<{ app: number }>(disableEndpoint)
  const save = connection.prepare(saveHealth)
  const bump = connection.prepare(bumpVersion.in('sqlite').text)
  const stop = connection.prepare(stopLane)
  const port = sqlitePort(connection)
  const interest = new NoticeInterest()
  const notify = (notices: readonly Notice[]) =>
    finishNow(writeNotices(port, connection.context, finishNow(interest.keepNow(port, notices))))

  return ({ holds, disable, health, notices = [] }, now) => {
    for (const { endpoint, holdMs } of holds) hold.run(endpoint, now + longestRestMs, now + Math.ceil(holdMs))
    for (const saved of health) save.run(saved.endpoint, saved.health, now)
    notify(notices)
    return disable.flatMap(({ endpoint, reason, failingMs = 0 }) => {
      const disabled = disableIt.get(reason, now, endpoint)
      if (disabled === undefined) return []
      bump.run({ app: disabled.app })
      stop.run(endpoint)
      notify([disabledNotice(endpoint, reason, now - failingMs)])
      return [endpoint]
    })
  }
}
