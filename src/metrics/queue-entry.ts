import type { EpochMs, SteadyMs } from '../domain/clock.ts'
import { type Load, noLoad } from '../domain/condition.ts'
import type { Class } from '../domain/delivery.ts'
import { QueueFlow } from '../domain/queue-flow.ts'
import type { Ladder } from './ladder.ts'

/** Waiting deliveries of an application or of the server, and how they come and go. */
export class QueueTotal {
  fresh = 0
  timed = 0
  replay = 0
  /** Endpoints with waiting deliveries. */
  endpoints = 0
  readonly flow: QueueFlow

  constructor(now: SteadyMs) {
    this.flow = new QueueFlow(now)
  }

  get waiting(): number {
    return this.fresh + this.timed + this.replay
  }

  get byClass(): [number, number, number] {
    return [this.fresh, this.timed, this.replay]
  }

  /** Adds to a class. A figure never falls below 0; answers by how much it changed. */
  add(itsClass: Class, by: number): number {
    const name = itsClass === 0 ? 'fresh' : itsClass === 1 ? 'timed' : 'replay'
    const before = this[name]
    this[name] = Math.max(0, before + by)
    return this[name] - before
  }
}

/** The queue of one endpoint, as the ledger knows it. */
export class QueueEntry extends QueueTotal {
  readonly app: number
  /** When its rows were last counted; 0 before the first time. */
  countedAt: EpochMs = 0
  /** The round that last looked at it. */
  round = -1
  changedAt: SteadyMs
  /** False when it may have changed in a way that was not counted. */
  isSure = true
  oldestSince: EpochMs | null = null
  load: Load = noLoad
  /** Of a long queue. */
  ladder: Ladder | undefined

  constructor(app: number, now: SteadyMs) {
    super(now)
    this.app = app
    this.changedAt = now
  }
}

/** A row came to a queue, or with -1 left it. */
export interface QueueChange {
  readonly endpoint: number
  readonly class: Class
  readonly dueAt: EpochMs
  /** 0 where it is not known: the place is then in front of all rows of the same instant. */
  readonly message: number
  readonly by: number
}
