import type { Publisher } from '../intake/publisher.ts'
import type { Store } from '../store/store.ts'
import type { Duty } from './leader.ts'
import { ScheduleRunner } from './schedule-runner.ts'

const second = 1000

/** How soon a schedule that another process made or changed is noticed; one that is known runs on time. */
const schedulesMs = second
const sweepMs = 15 * second
const sweepRows = 500

export interface DutyParts {
  readonly store: Store
  readonly publisher: Publisher
  onTrouble(error: unknown): void
}

/** Everything that is done once for the whole store. A new duty is an entry here. */
export function dutiesOf({ store, publisher, onTrouble }: DutyParts): Duty[] {
  const runner = new ScheduleRunner(store, publisher, onTrouble)
  return [
    {
      name: 'schedules',
      everyMs: schedulesMs,
      delivers: true,
      async step() {
        const { more, nextInMs } = await runner.step()
        return { more, inMs: nextInMs }
      },
    },
    {
      // What a publisher that died between its commit and its wake-up left behind.
      name: 'reconcile',
      everyMs: sweepMs,
      async step() {
        await store.reconcile()
        return false
      },
    },
    {
      name: 'idempotency',
      everyMs: sweepMs,
      step: async () => (await store.sweepIdempotency(sweepRows)) === sweepRows,
    },
  ]
}
