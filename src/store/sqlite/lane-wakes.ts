import type { EpochMs } from '../../domain/clock.ts'
import type { Connection } from './connection.ts'

// When the lane's queue next has something to do: 0 when a fresh or replayed row waits, else the earliest timed row's
// instant, else null. Three seeks of pending's primary key.
const selectWorkDue = `
  select case
    when exists (select 1 from pending where endpoint = ?1 and class = 0) then 0
    when exists (select 1 from pending where endpoint = ?1 and class = 2) then 0
    else (select min(due_at) from pending where endpoint = ?1 and class = 1)
  end as due_at`

// An owned lane is not written: its owner sees the rows itself.
const wakeLane = `
  update lane set due_at = max(?2, not_before, hold_until)
  where endpoint = ?1 and owner is null and stopped = 0 and (due_at is null or due_at > max(?2, not_before, hold_until))`

/** Wakes unowned lanes. Each method runs inside the caller's transaction. */
export interface LaneWakes {
  /** When the endpoint's queue next has something to do, `now` at the earliest; null when it is empty. */
  workDue(endpoint: number, now: EpochMs): EpochMs | null
  /** Makes the lane due by then unless something forbids it; answers whether that changed anything. */
  wake(endpoint: number, due: EpochMs): boolean
}

export function laneWakes(connection: Connection): LaneWakes {
  const work = connection.prepare<{ due_at: EpochMs | null }>(selectWorkDue)
  const wakeIt = connection.prepare(wakeLane)
  return {
    workDue(endpoint, now) {
      const due = work.get(endpoint)?.due_at ?? null
      return due === null ? null : Math.max(due, now)
    },
    wake: (endpoint, due) => wakeIt.run(endpoint, due).changes > 0,
  }
}
