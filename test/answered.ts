import type { Outcome } from '../src/domain/outcome.ts'
import { wishOf } from '../src/sender/wish.ts'

/** An outcome as the sender makes it: with the wish that its status states. */
export function answered<O extends Omit<Outcome, 'wish'>>(outcome: O): O & Pick<Outcome, 'wish'> {
  return { ...outcome, wish: wishOf(outcome.status, outcome.retryAfterMs) }
}
