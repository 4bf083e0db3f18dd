import { longestRestMs } from '../lanes.ts'
import type { Connection } from './connection.ts'
import { laneWakes } from './lane-wakes.ts'

/** Endpoints looked at per call, at about 10 µs each: the sweep goes on where it stopped. */
const endpointsPerCall = 1000

// One seek of pending's primary key, however many rows an endpoint has.
const selectNextEndpoint = 'select min(endpoint) as endpoint from pending where endpoint > ?'

// ?2 is when there is something to do, ?3 the latest instant that any rest may reach to.
const oversleeps = `
  owner is null and stopped = 0
  and (due_at is null or due_at > max(?2, min(not_before, ?3), min(hold_until, ?3)))`
const selectOversleeper = `select 1 from lane where endpoint = ?1 and ${oversleeps}`
const repairLane = `
  update lane set not_before = min(not_before, ?3), hold_until = min(hold_until, ?3),
    due_at = max(?2, min(not_before, ?3), min(hold_until, ?3))
  where endpoint = ?1 and ${oversleeps}`

/** Makes the sweep that wakes lanes which would sleep past their work; it answers how many it had to wake. */
export function reconciler(connection: Connection): () => number {
  const nextEndpoint = connection.prepare<{ endpoint: number | null }>(selectNextEndpoint)
  const oversleeping = connection.prepare<unknown>(selectOversleeper)
  const repair = connection.prepare(repairLane)
  const wakes = laneWakes(connection)
  let cursor = -1

  return () => {
    const now = connection.now()
    const latest = now + longestRestMs
    const found: { readonly endpoint: number; readonly due: number }[] = []
    for (let looked = 0; looked < endpointsPerCall; looked++) {
      const endpoint = nextEndpoint.get(cursor)?.endpoint ?? null
      cursor = endpoint ?? -1
      if (endpoint === null) break
      const due = wakes.workDue(endpoint, now)
      if (due !== null && oversleeping.get(endpoint, due, latest)) found.push({ endpoint, due })
    }
    if (found.length === 0) return 0
    const repaired = connection.transaction(() => {
      return found.reduce((sum, { endpoint, due }) => sum + repair.run(endpoint, due, latest).changes, 0)
    })
    if (repaired > 0) connection.watcher?.lanes()
    return repaired
  }
}
