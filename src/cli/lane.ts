import { type Item, pathOf } from './client.ts'
import type { RemoteCommands, Session } from './remote.ts'
import { instant, text } from './show.ts'
import { facts } from './table.ts'

/** `sluice lane`: what an endpoint's deliveries wait for. */
export function addLane(commands: RemoteCommands): void {
  commands.add(
    commands.program,
    'lane <app> <endpoint>',
    "show an endpoint's queue: who serves it, what waits, what holds it",
    async (session, [app = '', endpoint = '']) => {
      const lane = await session.client.get(pathOf('app', app, 'endpoint', endpoint, 'lane'))
      session.show(lane, () => describe(session, lane))
    },
  )
}

function describe({ terminal }: Session, lane: Item): string {
  const { owner, waiting, limits } = lane as Record<string, Item>
  const { fresh, timed, replay, total, isExact } = waiting ?? {}
  const until = (value: unknown) => (value == null ? undefined : instant(value))
  return facts(terminal, [
    ['state', stateOf(lane)],
    ['waiting', `${total}${isExact === false ? ' or more' : ''} (fresh ${fresh}, timed ${timed}, replay ${replay})`],
    ['owner', owner == null ? 'nobody' : text(owner.description)],
    ['workers', `${text(lane.workersAlive)} alive`],
    ['held until', until(lane.heldUntil)],
    ['rate limited until', until(lane.rateLimitedUntil)],
    ['next due', until(lane.dueAt)],
    ['next timed', until(lane.nextTimedAt)],
    ['rate', limits?.throttleRate == null ? '–' : `${limits.throttleRate} in ${limits.throttlePeriodSeconds} s`],
    ['burst', text(limits?.burst)],
    ['concurrency', text(limits?.concurrency)],
    ['as of', instant(lane.asOf)],
  ])
}

function stateOf({ disabled, disabledReason, paused, heldUntil }: Item): string {
  if (disabled === true) return disabledReason == null ? 'disabled' : `disabled (${text(disabledReason)})`
  if (paused === true) return 'paused'
  return heldUntil == null ? 'active' : 'held by Retry-After'
}
