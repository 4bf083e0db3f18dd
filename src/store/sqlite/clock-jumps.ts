import type { Connection } from './connection.ts'

/** Smaller steps are left alone: the two clocks are read one after the other, and the process may be held up between. */
const leastJumpMs = 100

// Rests are durations that had to be written down as instants. Those that end after the earlier of the two readings of
// the clock are moved; an older one is over by either.
const moveLanes = `
  update lane set bucket_full_at = bucket_full_at + :by, not_before = not_before + iif(not_before > 0, :by, 0), hold_until = hold_until + :by,
    due_at = min(due_at, due_at + :by)
  where max(bucket_full_at, not_before, hold_until, coalesce(due_at, 0)) > :since`
// How long ago that was is counted on.
const moveHealth = 'update lane set health_at = health_at + ? where health is not null'
const moveLeases = 'update worker set lease_until = lease_until + ? where ended_at is null'

/**
 * Makes a check, to be run before anything is decided by the clock, that moves leases and lanes' rests along when the
 * world's clock was set: a jump forward must not free what is held by a Retry-After or an empty bucket, and a jump back
 * must not freeze it. The steady clock tells a jump from time that passed.
 *
 * Only for a process that has the file to itself: two would move the same rows twice. A row that is due at a stated instant
 * (a retry, a delayed message) stays there, and a lane only ever becomes due earlier, which costs one look.
 */
export function followClock(connection: Connection): () => void {
  const { clock, log } = connection.context
  const lanes = connection.prepare(moveLanes)
  const healths = connection.prepare(moveHealth)
  const leases = connection.prepare(moveLeases)
  let offset = clock.now() - clock.steady()

  return () => {
    const now = clock.now()
    const found = now - clock.steady()
    const by = Math.round(found - offset)
    // Slow drift is followed without a trace.
    if (Math.abs(by) >= leastJumpMs) {
      connection.transaction(() => {
        lanes.run({ by, since: Math.floor(Math.min(now, now - by)) })
        healths.run(by)
        leases.run(by)
      })
      log?.(`the clock was set ${by > 0 ? 'forward' : 'back'} by ${Math.abs(by)} ms; leases and rests were moved along`)
    }
    offset = found
  }
}
