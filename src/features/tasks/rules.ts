import type { EpochMs } from '../../domain/clock.ts'
import type { SubjectErasure } from '../erasure/rules.ts'

/** Long work after a request was answered: in bounded steps, by one worker at a time. It survives restarts. */
export interface Task {
  readonly key: number
  readonly id: string
  /** The application it works on; null when it works on several. */
  readonly app: number | null
  readonly work: TaskWork
  readonly status: TaskStatus
  /** Where the next step continues; null before the first. */
  readonly cursor: TaskCursor | null
  /** Shown to callers: counts while it runs, then the result. */
  readonly data: TaskData
  readonly createdAt: EpochMs
  readonly updatedAt: EpochMs
}

/** A caller pauses, resumes or cancels a task. Only a paused task can run again. */
export const taskStatuses = ['running', 'paused', 'finished', 'failed', 'cancelled'] as const
export type TaskStatus = (typeof taskStatuses)[number]

export type TaskCommand = 'pause' | 'resume' | 'cancel'

/** The status of a task after a command; undefined when the task has ended. Cancelling twice is harmless. */
export function statusAfter(status: TaskStatus, command: TaskCommand): TaskStatus | undefined {
  if (status === 'running' || status === 'paused') return afterCommand[command]
  return command === 'cancel' && status === 'cancelled' ? status : undefined
}

const afterCommand = { pause: 'paused', resume: 'running', cancel: 'cancelled' } as const

/** The work of a task. Where Svix has the same, the name is Svix's. */
export type TaskWork =
  /** Replays the endpoint's dead letters. */
  | { readonly type: 'endpoint.recover'; readonly input: EndpointSpan & Paced }
  /** Replays messages that match the endpoint's filters and that it never received. */
  | { readonly type: 'endpoint.replay'; readonly input: EndpointSpan & Paced }
  /** Replays messages that were sent to the endpoint, by filter. */
  | { readonly type: 'endpoint.bulk-replay'; readonly input: EndpointSpan & ReplayFilter & Paced }
  | { readonly type: 'dead.replay'; readonly input: DeadFilter & Chosen & Paced }
  | { readonly type: 'dead.purge'; readonly input: DeadFilter }
  /** Erases the bodies of the application's messages. */
  | { readonly type: 'application.purge_content'; readonly input: AcceptedSpan }
  /** Rids the application's messages of a data subject. */
  | { readonly type: 'subject.erase'; readonly input: SubjectErasure }
  /** Counts deliveries per application. */
  | { readonly type: 'application.stats'; readonly input: AcceptedSpan & { readonly apps: readonly number[] | null } }
  /** Lists the event types that each application's endpoints subscribe to. */
  | { readonly type: 'event-type.aggregate'; readonly input: Record<string, never> }

type TaskType = TaskWork['type']
export const taskTypes: readonly TaskType[] = [
  'endpoint.recover',
  'endpoint.replay',
  'endpoint.bulk-replay',
  'dead.replay',
  'dead.purge',
  'application.purge_content',
  'subject.erase',
  'application.stats',
  'event-type.aggregate',
]

/** How many deliveries a second a replay queues at most; without a limit when it is missing. */
export interface Paced {
  readonly perSecond?: number | null
}

/** A paced task queues a quarter of a second's worth at once, and then rests for that time. */
const stepMs = 250

/** How many deliveries a step queues at most. */
export function queuedPerStep({ perSecond }: Paced): number {
  return perSecond == null ? Number.POSITIVE_INFINITY : Math.max(1, Math.ceil((perSecond * stepMs) / 1000))
}

/** How long a task rests after it queued this many deliveries. */
export function restAfter({ perSecond }: Paced, queued: number): number {
  return perSecond == null ? 0 : Math.ceil((queued * 1000) / perSecond)
}

/** No rest is longer: a stored end further ahead is from before the clock was set back. */
export const longestPauseMs = 1000

/** Messages accepted from `since` on and before `until`. */
export interface AcceptedSpan {
  readonly since: EpochMs
  readonly until: EpochMs
}

export interface EndpointSpan extends AcceptedSpan {
  readonly endpoint: number
}

/** Selects an endpoint's messages by their fields and their latest attempt. Null matches all. */
export interface ReplayFilter {
  readonly eventTypes: readonly string[] | null
  readonly channel: string | null
  readonly tag: string | null
  readonly outcome: 'delivered' | 'failed' | null
  /** 0 for no answer, else the hundreds of the status. */
  readonly statusClass: number | null
}

/** Selects dead letters of one application or of all. Null matches all. */
export interface DeadFilter {
  readonly endpoint: number | null
  readonly message: number | null
  readonly eventTypes: readonly string[] | null
  readonly reason: string | null
  /** When they died: from `after` on, before `before`. */
  readonly after: EpochMs
  readonly before: EpochMs
}

/** Dead letters that a caller chose one by one, of those that meet the filter. Without `letters` it is all of them. */
export interface Chosen {
  /** See `packLetters`. */
  readonly letters?: string | null
}

/** How many dead letters a caller can choose one by one. */
export const chosenLimit = 1000

interface Letter {
  readonly endpoint: number
  readonly message: number
}

/** Chosen dead letters as one text: a database that skips it in the input of a task takes a third of the time of numbers. */
export function packLetters(letters: readonly Letter[]): string {
  const keys = Float64Array.from(letters.flatMap(({ endpoint, message }) => [endpoint, message]))
  return Buffer.from(keys.buffer).toString('base64')
}

export function unpackLetters(text: string): Letter[] {
  const keys = new Float64Array(Uint8Array.from(Buffer.from(text, 'base64')).buffer)
  return Array.from({ length: keys.length / 2 }, (_, i) => ({
    endpoint: keys[2 * i] as number,
    message: keys[2 * i + 1] as number,
  }))
}

/** A position in the list that the task walks: the parts of a key. */
export type TaskCursor = readonly number[]

export type TaskData = Readonly<Record<string, unknown>>
