import type { BlockerReason } from './blocker.ts'
import type { EpochMs } from './clock.ts'
import type { LimitSource } from './endpoint.ts'
import type { CircuitState } from './health.ts'
import type { Crowded, Slots } from './snapshot.ts'
import type { StoreCondition } from './store-condition.ts'
import type { WaitingTotals } from './why.ts'

/** Everything that the doctor's rules judge, as of one look. */
export interface DoctorFacts {
  /** The store's clock. */
  readonly now: EpochMs
  readonly dialect: 'sqlite' | 'postgres'
  readonly store: StoreCondition
  /** The process that looks. */
  readonly process: { readonly version: string; readonly clockAheadMs: number }
  /** Workers that are alive, or ended recently. */
  readonly workers: readonly WorkerFacts[]
  readonly hasLeader: boolean
  /** All waiting deliveries, and how many there may be in all and of one application. */
  readonly waiting: WaitingTotals & { readonly limit: number; readonly limitPerApp: number }
  /** Publishes a second that load shedding refused in the last minute, in the process that looks. */
  readonly shedPerSecond: number
  /** The endpoints with the most waiting deliveries, and those that have waited longest. */
  readonly endpoints: readonly EndpointFacts[]
  readonly dead: DeadFacts
  /** Schedules whose tick has passed, the latest first. */
  readonly lateSchedules: readonly ScheduleFacts[]
  /** Sources at which every arrival was refused, the latest first. */
  readonly refusingSources: readonly SourceFacts[]
  /** Client certificates that expire within `certificateNoticeMs`, or have expired, the earliest first. */
  readonly certificates: readonly CertificateFacts[]
}

/** The store takes no writes, so nothing else is known. */
export interface StoreDown {
  readonly dialect: 'sqlite' | 'postgres'
  readonly trouble: string
}

/** A source that refuses. */
export interface SourceFacts {
  readonly app: string
  readonly source: string
  readonly provider: string
  /** Refused arrivals since the last one that was accepted. */
  readonly refusedInRow: number
  readonly refusedCode: string
  readonly everAccepted: boolean
}

export interface WorkerFacts {
  readonly id: number
  readonly name: string
  readonly version: string | null
  readonly state: 'alive' | 'lapsed' | 'left' | 'dead'
  readonly joinedAgoMs: number
  /** How long ago it left or was declared dead; null while it lives. */
  readonly endedAgoMs: number | null
  readonly lanes: number
  /** Attempts under way, and how many there may be; null when it did not report. */
  readonly slots: Slots | null
  /** How far its clock is ahead of the store's; null when it did not report. */
  readonly clockAheadMs: number | null
}

export interface EndpointFacts {
  /** Uids, or ids where there are none. */
  readonly app: string
  readonly endpoint: string
  /** The region of its lane. */
  readonly region: string
  readonly reason: BlockerReason | 'delivering' | 'idle'
  /** The reason as a sentence. */
  readonly detail: string
  /** When it moves on by itself; null when that is now or unknown. A lane that rests until then has no owner. */
  readonly nextAt: EpochMs | null
  readonly waiting: number
  readonly isExact: boolean
  /** Waiting deliveries above which publishes for it are refused; null when it drops deliveries instead. */
  readonly waitingLimit: number | null
  /** How long its longest due delivery has been due; 0 when none is due. */
  readonly oldestDueMs: number
  /** Fresh deliveries a second that arrived while the queue filled; null without a queue. */
  readonly arrivalRate: number | null
  /** Attempts a second recently, as its worker measured them; null when that is unknown. */
  readonly pace: number | null
  readonly inFlight: number | null
  readonly concurrency: number
  /** Attempts per period that may start; null without a limit. */
  readonly rate: { readonly perPeriod: number; readonly periodSeconds: number; readonly from: LimitSource } | null
  readonly crowded: Crowded | null
  readonly circuit: CircuitState
  /** When an open circuit is probed next; null when it is closed, or until an operator closes it. */
  readonly nextProbeAt: EpochMs | null
  /** Since when its attempts have failed without a success; null when they do not, or only for a moment. */
  readonly failingSince: EpochMs | null
  /** Whether its secret or headers do not open with the encryption keys of this server. */
  readonly isSealedShut: boolean
  readonly timeoutMs: number
  readonly recent: RecentAttempts
}

/** The latest attempts at an endpoint, up to fifty of the last ten minutes. */
export interface RecentAttempts {
  readonly count: number
  readonly meanMs: number
  readonly delivered: number
  /** The longest attempt that succeeded. */
  readonly slowestDeliveredMs: number
  readonly timeouts: number
  /** The share of all their time that attempts took which timed out. */
  readonly timeoutShare: number
  /** The code and the sentence of the latest failure; null without one. */
  readonly lastError: string | null
}

export const noAttempts: RecentAttempts = {
  count: 0,
  meanMs: 0,
  delivered: 0,
  slowestDeliveredMs: 0,
  timeouts: 0,
  timeoutShare: 0,
  lastError: null,
}

export interface DeadFacts {
  readonly windowMs: number
  /** Dead letters of the last window, and of the one before it. */
  readonly recent: number
  readonly before: number
  /** The endpoint with the most of the latest ones. */
  readonly worst: { readonly app: string; readonly endpoint: string; readonly share: number } | null
}

export interface ScheduleFacts {
  readonly app: string
  readonly schedule: string
  readonly lateMs: number
  readonly failures: number
}

export interface CertificateFacts {
  readonly app: string
  readonly endpoint: string
  readonly expiresAt: EpochMs
}

/** From where on a figure is a finding. */
export interface DoctorLimits {
  /** A delivery that has been due for this long is behind. */
  readonly behindMs: number
  /** A lane without an owner, or a worker that stands still, is a finding from here on. */
  readonly stuckMs: number
  /** No process leads though a worker has been alive for this long. */
  readonly leaderlessMs: number
  /** A worker that died within this time is reported. */
  readonly diedMs: number
  readonly slowCommitMs: number
  readonly clockMs: number
  readonly diskBytes: number
  readonly logBytes: number
  /** The share of connections in use. */
  readonly connectionShare: number
  readonly idleTransactionMs: number
  readonly longTransactionMs: number
  readonly deadRows: number
  readonly deadLetters: number
  readonly scheduleMs: number
  /** The share of the waiting limit in use. */
  readonly waitingShare: number
  /** The share of slots in use. */
  readonly slotShare: number
}

const mib = 2 ** 20

export const doctorLimits: DoctorLimits = {
  behindMs: 60_000,
  stuckMs: 30_000,
  leaderlessMs: 30_000,
  diedMs: 15 * 60_000,
  slowCommitMs: 500,
  clockMs: 2000,
  diskBytes: 1024 * mib,
  logBytes: 128 * mib,
  connectionShare: 0.9,
  idleTransactionMs: 60_000,
  longTransactionMs: 10 * 60_000,
  deadRows: 200_000,
  deadLetters: 10,
  scheduleMs: 60_000,
  waitingShare: 0.8,
  slotShare: 0.85,
}
