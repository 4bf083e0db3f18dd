import { Type } from 'typebox'
import { countLimit } from '../../store/lanes.ts'
import type { KnownLane } from '../explainer.ts'
import type { Out } from '../route.ts'

/** How many wait, by class. */
export const Waiting = Type.Object({
  fresh: Type.Integer(),
  timed: Type.Integer({ description: 'Retries, and messages published for later' }),
  replay: Type.Integer(),
  total: Type.Integer(),
  isExact: Type.Boolean({ description: 'Each is counted up to a limit, so that asking costs little' }),
})

/** How many wait, by class. Each is counted up to a limit, so that asking costs little however much waits. */
export function toWaitingOut({ waiting }: Pick<KnownLane, 'waiting'>): Out<typeof Waiting> {
  const [fresh, timed, replay] = waiting
  const isExact = waiting.every((count) => count < countLimit)
  return { fresh, timed, replay, total: fresh + timed + replay, isExact }
}
