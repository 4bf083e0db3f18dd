import type { Clock, EpochMs } from '../../domain/clock.ts'
import { Health } from '../../domain/health.ts'
import { Turns } from '../../domain/turns.ts'
import type { LaneViews, WaitingQueues } from '../../store/lanes.ts'

/** The endpoints that a survey names at most. */
export const worstKept = 100

const endpointsAtOnce = 250

type EndpointKeys = Awaited<ReturnType<WaitingQueues['endpointKeys']>>

/** The endpoints of an application, or of all, in small pages with a turn for others before and after each. */
async function* endpointPages(
  store: Pick<WaitingQueues, 'endpointKeys'>,
  clock: Clock,
  app: number | null,
): AsyncGenerator<EndpointKeys> {
  const turns = Turns.by(clock)
  for (let after: number | null = null; ; await turns.next()) {
    const page: EndpointKeys = await store.endpointKeys(app, after, endpointsAtOnce)
    await turns.next()
    yield page
    if (page.length < endpointsAtOnce) return
    after = page.at(-1)?.endpoint ?? null
  }
}

/**
 * The endpoints whose receivers have failed for longest, by their stored health, up to `worstKept`. Walks all endpoints in
 * small steps with a turn for others in between.
 */
export async function surveyFailing(
  store: Pick<WaitingQueues & LaneViews, 'endpointKeys' | 'laneStates'>,
  clock: Clock,
  app: number | null,
): Promise<readonly number[]> {
  const failing: { readonly endpoint: number; readonly since: EpochMs }[] = []
  for await (const page of endpointPages(store, clock, app)) {
    const keys = page.map(({ endpoint }) => endpoint)
    for (const { endpoint, now, health, healthAgeMs } of await store.laneStates(keys)) {
      if (health === null) continue
      const { failingSince } = new Health(health, healthAgeMs, now)
      if (failingSince !== undefined) failing.push({ endpoint, since: failingSince })
    }
    failing.sort((a, b) => a.since - b.since).splice(worstKept)
  }
  return failing.map(({ endpoint }) => endpoint)
}
