import type { EpochMs } from '../../domain/clock.ts'

/** Treatments of deliveries that wait when their message is erased. */
export const waitingPolicies = ['cancel', 'deliver-without'] as const
type WaitingPolicy = (typeof waitingPolicies)[number]

/** The request to erase a data subject. The subject itself is in no record: only its keyed hash is. */
export interface SubjectErasure {
  readonly hash: string
  readonly waiting: WaitingPolicy
  /** The id of the key that asked, and the address of its caller. */
  readonly requestedBy: string
  readonly address: string
}

/** The rows and bytes that are written when a message is erased. */
export interface MessageWeight {
  readonly message: number
  /** Endpoints that the message was accepted for. */
  readonly endpoints: number
  readonly attempts: number
  /** The body in all its forms. */
  readonly bodyBytes: number
  /** Answers of receivers. */
  readonly answerBytes: number
}

/** The limits of one step: less than 10 ms of SQLite's time, in which nothing else happens in that process. */
const stepLimits = { messages: 50, endpoints: 125, attempts: 250, bytes: 2 ** 19 }

/**
 * The first of these messages that one step erases: the first one in any case. A message that is too wide for a step is
 * alone in its steps, each for some of its endpoints. A message without a weight is gone.
 */
export function firstStep(messages: readonly number[], weights: readonly MessageWeight[]): number[] {
  const weightOf = new Map(weights.map((weight) => [weight.message, weight]))
  let [endpoints, attempts, bytes] = [0, 0, 0]
  const end = messages.findIndex((message, i) => {
    const weight = weightOf.get(message)
    endpoints += weight?.endpoints ?? 0
    attempts += weight?.attempts ?? 0
    bytes += (weight?.bodyBytes ?? 0) + (weight?.answerBytes ?? 0)
    const isFull = endpoints > stepLimits.endpoints || attempts > stepLimits.attempts || bytes > stepLimits.bytes
    return i > 0 && (isFull || i >= stepLimits.messages)
  })
  return end < 0 ? [...messages] : messages.slice(0, end)
}

/** All of these messages in steps. */
export function stepsOf(messages: readonly number[], weights: readonly MessageWeight[]): number[][] {
  const steps: number[][] = []
  for (let rest = messages; rest.length > 0; ) {
    const step = firstStep(rest, weights)
    steps.push(step)
    rest = rest.slice(step.length)
  }
  return steps
}

/** How many endpoints of a message one step deals with. */
export function endpointsAtOnce({ endpoints, attempts, answerBytes }: MessageWeight): number {
  const steps = Math.max(
    endpoints / stepLimits.endpoints,
    attempts / stepLimits.attempts,
    answerBytes / stepLimits.bytes,
    1,
  )
  return Math.max(1, Math.floor(endpoints / steps))
}

/** The purpose under which reports are signed. */
export const erasurePurpose = 'erasure'
/** The action of the audit rows that hold reports. */
export const erasureAction = 'REPORT /app/:app/subject/erase'

/** How much was erased, by kind. */
interface ErasureCounts {
  /** Messages whose payload was erased. */
  readonly messages: number
  /** Messages that are delivered without the person's data. */
  readonly rewritten: number
  /** Deliveries that waited and were cancelled. */
  readonly cancelled: number
  /** Deliveries that waited and get the new body. */
  readonly without: number
  /** Attempts and dead letters whose answers were erased. */
  readonly attempts: number
  readonly deadLetters: number
  /** Samples of refused arrivals at sources. */
  readonly samples: number
}

const noneErased: ErasureCounts = {
  messages: 0,
  rewritten: 0,
  cancelled: 0,
  without: 0,
  attempts: 0,
  deadLetters: 0,
  samples: 0,
}

/** How much a step has erased. */
export interface Erased {
  /** `filed` counts dead letters that were written to a dead-letter file before. */
  readonly counts: ErasureCounts & { readonly filed: number }
  /** The ids of the messages of those letters. */
  readonly filedMessages: readonly string[]
}

export const nothingErased: Erased['counts'] = { ...noneErased, filed: 0 }

/**
 * The proof of an erasure, signed by the server. It is JSON in this order of fields, which the signature covers. It names
 * the subject by its keyed hash alone.
 */
export interface ErasureReport {
  readonly version: 1
  readonly task: string
  readonly app: string
  readonly subject: string
  readonly waiting: WaitingPolicy
  readonly requestedBy: string
  readonly requestedAt: string
  /** Every message accepted before this instant is covered. */
  readonly until: string
  readonly finishedAt: string
  readonly scanned: number
  readonly erased: ErasureCounts
  /** When the oldest and the newest of these messages were accepted; null when there were none. */
  readonly oldest: string | null
  readonly newest: string | null
  /** Places that Sluice does not change. */
  readonly left: {
    /** Lines of dead-letter files: how many, and the ids of their messages, up to a limit. */
    readonly deadLetterFile: { readonly lines: number; readonly messages: readonly string[] }
    /** Ids of schedules whose payload names the subject. */
    readonly schedules: readonly string[]
  }
}

/** The progress of an erasure, as its task keeps it. */
export interface ErasureProgress {
  readonly scanned: number
  readonly erased: ErasureCounts
  readonly oldest: EpochMs | null
  readonly newest: EpochMs | null
  readonly filed: number
  readonly filedMessages: readonly string[]
  readonly schedules: readonly string[]
}

export const noProgress: ErasureProgress = {
  scanned: 0,
  erased: noneErased,
  oldest: null,
  newest: null,
  filed: 0,
  filedMessages: [],
  schedules: [],
}

/** Messages of dead-letter files that a report names. */
const namedLimit = 1000

/** The progress after a step that erased from these messages, which were accepted at these instants. */
export function progressed(
  before: ErasureProgress,
  scanned: number,
  instants: readonly EpochMs[],
  { counts, filedMessages }: Erased,
): ErasureProgress {
  const { filed, ...erased } = counts
  const names = [...new Set([...before.filedMessages, ...filedMessages])].slice(0, namedLimit)
  const all = [before.oldest, before.newest, ...instants].filter((at) => at !== null)
  return {
    ...before,
    scanned: before.scanned + scanned,
    erased: Object.fromEntries(
      Object.entries(before.erased).map(([name, count]) => [name, count + erased[name as keyof ErasureCounts]]),
    ) as unknown as ErasureCounts,
    oldest: all.length === 0 ? null : Math.min(...all),
    newest: all.length === 0 ? null : Math.max(...all),
    filed: before.filed + filed,
    filedMessages: names,
  }
}

/** The report of an erasure that has come to its end. */
export function reportOf(
  task: { readonly id: string; readonly createdAt: EpochMs },
  app: string,
  { hash, waiting, requestedBy }: SubjectErasure,
  { scanned, erased, oldest, newest, filed, filedMessages, schedules }: ErasureProgress,
  finishedAt: EpochMs,
): ErasureReport {
  return {
    version: 1,
    task: task.id,
    app,
    subject: hash,
    waiting,
    requestedBy,
    requestedAt: isoOf(task.createdAt),
    until: isoOf(task.createdAt),
    finishedAt: isoOf(finishedAt),
    scanned,
    erased,
    oldest: oldest === null ? null : isoOf(oldest),
    newest: newest === null ? null : isoOf(newest),
    left: { deadLetterFile: { lines: filed, messages: filedMessages }, schedules },
  }
}

function isoOf(at: EpochMs): string {
  return new Date(at).toISOString()
}
