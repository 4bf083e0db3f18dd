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

export type TaskStatus = 'running' | 'finished' | 'failed'
export const taskStatuses: readonly TaskStatus[] = ['running', 'finished', 'failed']

/** What a task does. The names that Svix has are Svix's. */
export type TaskWork =
  /** Sends the endpoint's dead letters of that time again. */
  | { readonly type: 'endpoint.recover'; readonly input: EndpointSpan }
  /** Sends the endpoint what it would have got, had it existed as it is now. */
  | { readonly type: 'endpoint.replay'; readonly input: EndpointSpan }
  /** Sends the endpoint again what it got or failed to get, by filter. */
  | { readonly type: 'endpoint.bulk-replay'; readonly input: EndpointSpan & ReplayFilter }
  | { readonly type: 'dead.replay'; readonly input: DeadFilter }
  | { readonly type: 'dead.purge'; readonly input: DeadFilter }
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
  'application.stats',
  'event-type.aggregate',
]

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

/** Which dead letters of an application are meant. Null: any. */
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
