import type { EpochMs } from './clock.ts'

/** Long work that goes on after the request that asked for it: in bounded steps, over restarts, by one worker at a time. */
export interface Task {
  readonly key: number
  readonly id: string
  /** The application it works on; null when it works on several. */
  readonly app: number | null
  readonly work: TaskWork
  readonly status: TaskStatus
  /** Where the next step goes on; null before the first. */
  readonly cursor: TaskCursor | null
  /** What callers see of it: counts while it runs, the answer when it has one. */
  readonly data: TaskData
  readonly createdAt: EpochMs
  readonly updatedAt: EpochMs
}

/** Paused and cancelled by somebody; the others by itself. Only a paused one can run again. */
export type TaskStatus = 'running' | 'paused' | 'finished' | 'failed' | 'cancelled'
export const taskStatuses: readonly TaskStatus[] = ['running', 'paused', 'finished', 'failed', 'cancelled']

/** What somebody may say to a task. */
export type TaskCommand = 'pause' | 'resume' | 'cancel'

/** What a task that has this status becomes by an order; undefined when it is past that. */
export function statusAfter(status: TaskStatus, order: TaskCommand): TaskStatus | undefined {
  if (status !== 'running' && status !== 'paused')
    return order === 'cancel' && status === 'cancelled' ? status : undefined
  return order === 'pause' ? 'paused' : order === 'resume' ? 'running' : 'cancelled'
}

/** What a task does. The names that Svix has are Svix's. */
export type TaskWork =
  /** Sends the endpoint's dead letters of that time again. */
  | { readonly type: 'endpoint.recover'; readonly input: EndpointSpan & Paced }
  /** Sends the endpoint what it would have got, had it existed as it is now. */
  | { readonly type: 'endpoint.replay'; readonly input: EndpointSpan & Paced }
  /** Sends the endpoint again what it got or failed to get, by filter. */
  | { readonly type: 'endpoint.bulk-replay'; readonly input: EndpointSpan & ReplayFilter & Paced }
  | { readonly type: 'dead.replay'; readonly input: DeadFilter & Paced }
  | { readonly type: 'dead.purge'; readonly input: DeadFilter }
  /** Erases what the application's messages said. */
  | { readonly type: 'application.purge_content'; readonly input: Span }
  /** Counts deliveries per application. */
  | { readonly type: 'application.stats'; readonly input: Span & { readonly apps: readonly number[] | null } }
  /** Lists what each application's endpoints subscribe to. */
  | { readonly type: 'event-type.aggregate'; readonly input: Record<string, never> }

export type TaskType = TaskWork['type']
export const taskTypes: readonly TaskType[] = [
  'endpoint.recover',
  'endpoint.replay',
  'endpoint.bulk-replay',
  'dead.replay',
  'dead.purge',
  'application.purge_content',
  'application.stats',
  'event-type.aggregate',
]

/** How many deliveries a second a replay queues at most; missing for as fast as it can. */
export interface Paced {
  readonly perSecond?: number | null
}

/** A paced task queues a quarter of a second's worth at once, and then rests for as long as that is worth. */
const stepMs = 250

/** How many a step of a paced task queues at most. */
export function queuedPerStep({ perSecond }: Paced): number {
  return perSecond == null ? Number.POSITIVE_INFINITY : Math.max(1, Math.ceil((perSecond * stepMs) / 1000))
}

/** How long a paced task rests when it has queued this many. */
export function restAfter({ perSecond }: Paced, queued: number): number {
  return perSecond == null ? 0 : Math.ceil((queued * 1000) / perSecond)
}

/** No pause is longer: one that reaches further was stored before the clock was set back. */
export const longestPauseMs = 1000

/** Messages accepted from `since` on and before `until`. */
export interface Span {
  readonly since: EpochMs
  readonly until: EpochMs
}

export interface EndpointSpan extends Span {
  readonly endpoint: number
}

/** Which of an endpoint's messages a replay means, by the message and by its latest attempt. Null: any. */
export interface ReplayFilter {
  readonly eventTypes: readonly string[] | null
  readonly channel: string | null
  readonly tag: string | null
  readonly outcome: 'delivered' | 'failed' | null
  /** 0 for no answer, else the hundreds of the status. */
  readonly statusClass: number | null
}

/** Which dead letters of an application, or of all, are meant. Null: any. */
export interface DeadFilter {
  readonly endpoint: number | null
  readonly message: number | null
  readonly eventTypes: readonly string[] | null
  readonly reason: string | null
  /** By when they died: from the first instant on, before the second. */
  readonly after: EpochMs
  readonly before: EpochMs
}

/** A position in whatever the task walks through: the parts of a key. */
export type TaskCursor = readonly number[]

export type TaskData = Readonly<Record<string, unknown>>
