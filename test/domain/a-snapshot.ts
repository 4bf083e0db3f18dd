import type { LaneSnapshot } from '../../src/domain/snapshot.ts'

/** A lane that nothing keeps. */
export const snapshot: LaneSnapshot = {
  worker: 1,
  n: 1,
  inFlight: 0,
  concurrency: 16,
  sending: [],
  recording: [],
  queued: [0, 0, 0],
  tokenMs: null,
  rate: null,
  order: null,
  holdMs: 0,
  crowded: null,
  app: { inFlight: 0, limit: 512 },
  process: { inFlight: 0, limit: 1024 },
  standstill: null,
  leaving: false,
  activeAgoMs: 0,
  pace: null,
}
