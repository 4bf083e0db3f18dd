import type { Bench } from './bench.ts'
import type { Child } from './child.ts'
import { Meter, perEvent } from './meter.ts'
import type { Receivers } from './receivers.ts'
import type { SendCommands } from './reference-send.ts'
import { steadyRate } from './steady-rate.ts'
import { type ThreadTime, threadTime } from './thread-time.ts'

/** The rate and the cost of the reference for delivering. */
export interface Raw extends ThreadTime {
  readonly perSec: number
}

const seconds = 4

/** Runs the bare loop against the receivers; processor times are for each request of the steady part. */
export async function runBareLoop(
  bench: Bench,
  receivers: Receivers,
  reference: Child<SendCommands>,
  connectionsEach: number,
): Promise<Raw> {
  bench.note('running the bare loop')
  await receivers.reset()
  const meter = new Meter(() => ({ ...threadTime(reference.pid) }))
  await reference.ask('run', { urls: receivers.urls, connectionsEach, seconds })
  meter[Symbol.dispose]()
  const { timeline, startedAt } = await receivers.totals()
  return { perSec: steadyRate(timeline), ...perEvent(meter, timeline, startedAt) }
}

/** The mean of a run before and one after, so that a machine that changes its speed in between favours neither. */
export function meanOf(before: Raw, after: Raw): Raw {
  return {
    perSec: (before.perSec + after.perSec) / 2,
    mainUs: (before.mainUs + after.mainUs) / 2,
    allUs: (before.allUs + after.allUs) / 2,
    mainWaitUs: (before.mainWaitUs + after.mainWaitUs) / 2,
  }
}
