import type { Bucket } from './bucket.ts'
import type { SteadyMs } from './clock.ts'
import type { Lane } from './lane.ts'
import { Queue } from './queue.ts'

/** The state that the lanes of one application share: their turns, their slots, and the application's rate if it has one. */
export interface AppLanes<T> {
  readonly key: number
  readonly ready: Queue<Lane<T>>
  /** The number of its lanes in this worker. */
  lanes: number
  inFlight: number
  place: 'out' | 'ring' | 'crowded' | 'asleep'
  wakeAt: SteadyMs
  /** The application's rate, over all its lanes in this worker. */
  bucket: Bucket | undefined
  notBefore: SteadyMs
}

export function newAppLanes<T>(key: number): AppLanes<T> {
  const none = { bucket: undefined, notBefore: Number.NEGATIVE_INFINITY, wakeAt: 0 }
  return { key, ready: new Queue(), lanes: 0, inFlight: 0, place: 'out', ...none }
}

/** When the application's rate allows the next request: `now` or later. */
export function mayStartAt<T>({ bucket, notBefore }: AppLanes<T>, now: SteadyMs): SteadyMs {
  return bucket ? Math.max(bucket.readyAt(now), notBefore) : now
}
