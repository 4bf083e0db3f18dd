import { longestRestMs } from '../lanes.ts'
import { integers } from './arrays.ts'
import type { Database } from './database.ts'
import { withClock } from './database.ts'
import { type Statement, statement } from './sessions.ts'

const shortenLeases = statement(
  'shorten-leases',
  `
    ${withClock}
    update worker set lease_until = clock.now + lease_ms
      from clock where ended_at is null and lease_until > clock.now + lease_ms`,
)

/**
 * `for update` does not wait: a worker that is settling or claiming at this moment holds its row, and is declared dead
 * by the next renewal if it still needs to be. Once this has the row, whatever the worker says is refused.
 */
const endLapsedWorkers = statement(
  'end-lapsed-workers',
  `
    ${withClock}, lapsed as materialized (
      select id from worker where ended_at is null and lease_until < (select now from clock) for update skip locked
    )
    update worker set ended_at = (select now from clock) where id = any (array (select id from lapsed))
    returning id`,
)

// Here the wait is wanted: what the leaving worker is still settling comes first.
const endWorker = statement(
  'end-worker',
  `
    ${withClock}, leaving as materialized (
      select id from worker where id = $1 and ended_at is null for update
    )
    update worker set ended_at = (select now from clock) where id = any (array (select id from leaving))
    returning id`,
)

/**
 * A statement of its own behind the one that ended the workers: only then does it see the lanes that those took until
 * the last moment. Leans on lane_owner.
 */
const orphanLanes = statement(
  'orphan-lanes',
  `
    ${withClock}
    update lane set owner = null, clean = false,
           due_at = case when not stopped then greatest(clock.now, least(hold_until, clock.now + ${longestRestMs})) end
      from clock where owner = any ($1::bigint[])`,
)

/** Ways for a worker to end. Whatever it says afterwards is refused, and its lanes are anybody's. */
export interface WorkerEnding {
  /** Ends a worker that leaves. */
  end(worker: number): Promise<void>
  /** Ends those whose lease has lapsed; answers how many. */
  endLapsed(): Promise<number>
}

export function workerEnding({ durable, signals }: Database): WorkerEnding {
  async function ended(statement: Statement, values: readonly unknown[], shorten: boolean): Promise<number> {
    const ids = await durable.transaction(async (run) => {
      if (shorten) await run(shortenLeases)
      const ids = (await run<{ id: number }>(statement, values)).map((row) => row.id)
      if (ids.length > 0) {
        await run(orphanLanes, [integers(ids)])
        await signals.notify(run, 'w', [])
      }
      return ids
    })
    if (ids.length > 0) signals.lanes()
    return ids.length
  }

  return {
    end: async (worker) => void (await ended(endWorker, [worker], false)),
    endLapsed: () => ended(endLapsedWorkers, [], true),
  }
}
