import type { EpochMs } from '../../domain/clock.ts'
import type { CircuitState } from '../../domain/health.ts'
import type { Crowded, Slots, SlotWaits } from '../../domain/snapshot.ts'
import type { StoreKind, StoreTraits } from '../../domain/store-traits.ts'
import type { LimitSource } from '../endpoints/rules.ts'
import type { BlockerReason } from '../why/blocker.ts'

/** All waiting deliveries. */
interface WaitingTotals {
  readonly total: number
  /** Endpoints with waiting deliveries. */
  readonly endpoints: number
  readonly isExact: boolean
}

/** The facts about the store, the workers, dead letters and schedules, which the doctor and alerts judge by the same rules. */
export interface SystemFacts {
  /** The store's clock. */
  readonly now: EpochMs
  readonly traits: StoreTraits
  readonly store: StoreCondition
  /** The process that looks. */
  readonly process: { readonly version: string; readonly clockAheadMs: number }
  /** Workers that are alive, or ended recently. */
  readonly workers: readonly WorkerFacts[]
  readonly hasLeader: boolean
  readonly dead: DeadFacts
  /** Schedules whose tick has passed, the latest first. */
  readonly lateSchedules: readonly ScheduleFacts[]
}

/** Everything that the doctor's rules judge, as of one look. */
export interface DoctorFacts extends SystemFacts {
  /** All waiting deliveries, and how many there may be in all and of one application. */
  readonly waiting: WaitingTotals & { readonly limit: number; readonly limitPerApp: number }
  /** Publishes a second that load shedding refused in the last minute, in the process that looks. */
  readonly shedPerSecond: number
  /** The endpoints with the most waiting deliveries, and those that have waited longest. */
  readonly endpoints: readonly EndpointFacts[]
  /** Sources at which every arrival was refused, the latest first. */
  readonly refusingSources: readonly SourceFacts[]
  /** Client certificates that expire within `certificateNoticeMs`, or have expired, the earliest first. */
  readonly certificates: readonly CertificateFacts[]
  /** Things whose name is `.` or `..`. */
  readonly foldedNames: readonly FoldedNameFacts[]
}

/** The store takes no writes, so nothing else is known. */
export interface StoreDown {
  readonly dialect: StoreKind
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
  /** Its lanes that could send and wait for a slot; none when it did not report. */
  readonly waits?: SlotWaits
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

export interface FoldedNameFacts {
  readonly noun: 'application' | 'endpoint' | 'schedule' | 'source' | 'event type'
  readonly id: string
  readonly name: string
  readonly appId: string | null
}

export interface CertificateFacts {
  readonly app: string
  readonly endpoint: string
  readonly expiresAt: EpochMs
}

const mib = 2 ** 20

/** From where on a figure is a finding. */
export const doctorLimits = {
  /** A delivery that has been due for this long is behind. */
  behindMs: 60_000,
  /** A lane without an owner, or a worker that stands still, is a finding from here on. */
  stuckMs: 30_000,
  /** No process leads though a worker has been alive for this long. */
  leaderlessMs: 30_000,
  /** A worker that died within this time is reported. */
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
  /** The share of the waiting limit in use. */
  waitingShare: 0.8,
  slotShare: 0.85,
}
export type DoctorLimits = Readonly<typeof doctorLimits>

/** The condition of the database, as figures that operators and the rules of the doctor judge. */
export interface StoreCondition {
  /** The store's clock. */
  readonly now: EpochMs
  /** Time that one durable write took just now. */
  readonly commitMs: number
  /** Size of the database; null for a database in memory. */
  readonly bytes: number | null
  /** Size of SQLite's write-ahead log; null on Postgres and in memory. */
  readonly logBytes: number | null
  /** The file system of the SQLite file; null on Postgres and in memory. */
  readonly disk: DiskCondition | null
  /** The server's settings and sessions; null on SQLite. */
  readonly server: PostgresCondition | null
}

interface DiskCondition {
  readonly path: string
  readonly freeBytes: number
  readonly totalBytes: number
  /** The name of a network file system, on which SQLite's locks cannot be trusted; null for any other. */
  readonly network: string | null
}

export interface PostgresCondition {
  readonly database: string
  /** Settings of the server by which a power cut may lose committed transactions, such as `fsync = off`. */
  readonly unsafe: readonly string[]
  /** `synchronous_commit` of sessions that do not set it: those of programs that publish in their own transactions. */
  readonly synchronousCommit: string
  readonly autovacuum: boolean
  /** The limit of connections that is nearest: of the server, of the database or of the role. */
  readonly connections: { readonly of: 'server' | 'database' | 'role'; readonly used: number; readonly limit: number }
  readonly replication: ReplicationFacts
  /** The oldest transaction of a session of this database; null without one. */
  readonly oldestTransaction: OpenTransaction | null
  /** The table with the most dead rows. */
  readonly deadRows: { readonly table: string; readonly dead: number; readonly live: number } | null
}

export interface ReplicationFacts {
  /** Servers that the store names. */
  readonly named: number
  /** Standbys that follow the server now. */
  readonly following: number
  /** Those of which one commit or another waits; null where the role of Sluice may not see it. */
  readonly synchronous: number | null
  /** `synchronous_standby_names`: the standbys that each commit waits for; empty when it waits for none. */
  readonly awaited: string
}

export interface OpenTransaction {
  readonly pid: number
  readonly application: string
  /** Whether the session waits for its client and does nothing. */
  readonly isIdle: boolean
  readonly ageMs: number
  /** Sessions that wait for a lock of it. */
  readonly blocks: number
}

/** Types of network file systems as Linux reports them (statfs(2)). */
const networkFileSystems: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x65735546, 'FUSE'],
  [0x01021997, '9P'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x01161970, 'GFS2'],
  [0x5346414f, 'AFS'],
  [0x7461636f, 'OCFS2'],
])

/** The name of a network file system by its type; null for any other. Some systems report the type as a signed number. */
export function networkFileSystem(type: number): string | null {
  return networkFileSystems.get(type >>> 0) ?? null
}

/** `warning`: something will go wrong, or goes wrong for one receiver; `critical`: deliveries stand still or may be lost. */
export type Severity = 'warning' | 'critical'

/** One thing that is wrong, with its figures and the command that helps. */
export interface Finding {
  readonly code: string
  readonly severity: Severity
  /** One sentence or two, shown to operators. */
  readonly sentence: string
  readonly evidence: Evidence
  /** The command that helps, or the one that shows more. */
  readonly command: string
  /** The application and endpoint, by uid or id; null for a finding about the whole system. */
  readonly app: string | null
  readonly endpoint: string | null
}

type Evidence = Readonly<Record<string, number | string | boolean | null>>

/** A finding with the code and severity of its rule. */
export type RuleFinding = Omit<Finding, 'code' | 'severity' | 'app' | 'endpoint'> &
  Partial<Pick<Finding, 'severity' | 'app' | 'endpoint'>>

/** One entry of the table of rules. docs/doctor.md is made from it. */
export interface Rule<F = DoctorFacts> {
  readonly code: string
  /** Absent for a rule whose findings are warnings, though some may be critical. */
  readonly severity?: 'critical'
  /** When such a finding is critical, for the docs. */
  readonly criticalWhen?: string
  /** The trouble, for the docs. */
  readonly meaning: string
  /** The remedy, for the docs. */
  readonly remedy: string
  readonly find: (facts: F, limits: DoctorLimits, known: Known) => RuleFinding | readonly RuleFinding[] | undefined
}

/** A rule that needs the facts about the system alone. */
export type SystemRule = Rule<SystemFacts>

/** The findings so far, as far as later rules need to know them. */
export interface Known {
  /** Endpoints whose waiting deliveries are explained: each has one cause. */
  readonly explained: Set<EndpointFacts>
  /** Whether a cause was found that makes every endpoint wait. */
  allExplained: boolean
}
