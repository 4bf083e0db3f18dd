import type { Attempt, MessageHead } from './delivery.ts'
import type { ReplayFilter } from './task.ts'

/** What a list of messages may ask for. Absent: anything. */
export interface MessageFilter {
  readonly channel?: string | undefined
  readonly tag?: string | undefined
  readonly eventTypes?: readonly string[] | undefined
}

/** Whether a filter excludes nothing, so that every row read is one shown. */
export function isOpen({ channel, tag, eventTypes }: MessageFilter): boolean {
  return channel === undefined && tag === undefined && eventTypes === undefined
}

/** Whether a message meets a filter. Event types are compared as they are: a list of names, not of patterns. */
export function meetsFilter(message: MessageHead, { channel, tag, eventTypes }: MessageFilter): boolean {
  if (channel !== undefined && !message.channels?.includes(channel)) return false
  if (tag !== undefined && !message.tags?.includes(tag)) return false
  return eventTypes === undefined || eventTypes.includes(message.eventType)
}

/** Whether an attempt's status is of a class: 0 for no answer, 200 for 2xx and so on. */
export function isOfClass(attempt: Pick<Attempt, 'status'>, statusClass: number): boolean {
  return Math.floor(attempt.status / 100) * 100 === statusClass
}

type Latest = Pick<Attempt, 'code' | 'status' | 'nextAt'>

/** Whether a replay by filter means this message, given its latest attempt at the endpoint. What is unfinished never is. */
export function meetsReplay(message: MessageHead, latest: Latest | undefined, filter: ReplayFilter): boolean {
  if (latest === undefined || latest.nextAt !== null || message.expunged) return false
  if (filter.outcome !== null && (filter.outcome === 'delivered') !== (latest.code === 'delivered')) return false
  if (filter.statusClass !== null && !isOfClass(latest, filter.statusClass)) return false
  return meetsFilter(message, {
    channel: filter.channel ?? undefined,
    tag: filter.tag ?? undefined,
    eventTypes: filter.eventTypes ?? undefined,
  })
}
