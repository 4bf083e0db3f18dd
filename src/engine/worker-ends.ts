import type { EpochMs } from '../domain/clock.ts'
import { count } from '../domain/phrases.ts'
import type { Renewal, Store } from '../store/store.ts'

/** A lane of a dead worker is claimed within this many leases of its end. */
const takeOverLeases = 3
/** Workers that a log line looks among. */
const listedWorkers = 100

/** The log line for a worker that was declared dead. */
export function diedText({ worker, description, lanes }: NonNullable<Renewal['died']>[number], how: string): string {
  return `worker ${worker} (${description}) died: ${how}; ${count(lanes, 'lane')} of it are free for other workers`
}

/** The log line for a worker whose lease ran out with attempts under way. */
export function lapsedText(attempts: number): string {
  return `the lease of this worker was not renewed in time: ${count(attempts, 'attempt')} given up, to be made again`
}

/**
 * The log line for lanes that were taken over, with the workers that died lately; undefined when none did. Lanes whose limits
 * changed come to a worker in the same way.
 */
export async function takenOverText(
  store: Pick<Store, 'listWorkers'>,
  lanes: number,
  now: EpochMs,
  leaseMs: number,
): Promise<string | undefined> {
  const since = now - takeOverLeases * leaseMs
  const died = (await store.listWorkers(listedWorkers)).filter((each) => each.died && (each.endedAt ?? 0) > since)
  if (died.length === 0) return undefined
  const names = died.map(({ worker, description }) => `worker ${worker}, ${description}`).join('; ')
  return `took over ${count(lanes, 'lane')} after the death of ${names}`
}
