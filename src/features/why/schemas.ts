import { Type } from 'typebox'
import { flag, whole } from '../../operations/fields.ts'
import type { Out } from '../../operations/route.ts'
import { countLimit } from '../../store/lanes.ts'
import type { KnownLane } from './service.ts'

/** Counts of waiting deliveries by class. */
export const Waiting = Type.Object({
  fresh: Type.Integer(),
  timed: whole('Retries, and messages published for later'),
  replay: Type.Integer(),
  total: Type.Integer(),
  isExact: flag('False when counting stopped at a limit, so that `total` is at least this many.'),
})

/** Counts of waiting deliveries by class, each up to a limit, so that a long queue costs no more. */
export function toWaitingOut({ waiting }: Pick<KnownLane, 'waiting'>): Out<typeof Waiting> {
  const [fresh, timed, replay] = waiting
  const isExact = waiting.every((count) => count < countLimit)
  return { fresh, timed, replay, total: fresh + timed + replay, isExact }
}

/** All waiting deliveries, of an application or of all. */
export const WaitingTotals = Type.Object({
  total: whole('Waiting deliveries.'),
  endpoints: whole('Endpoints with waiting deliveries.'),
  isExact: flag('False when there are more than a million: `total` is then at least this many.'),
})
