import type { DeadLetterSummary } from '../../domain/delivery.ts'
import { isMatched } from '../../domain/match.ts'
import type { DeadFilter } from '../tasks/rules.ts'

/** Whether a filter means a dead letter, whose message is of this event type; undefined for a message that no longer exists. */
export function meetsDead(
  letter: Pick<DeadLetterSummary, 'endpoint' | 'message' | 'reason' | 'diedAt'>,
  eventType: string | undefined,
  { endpoint, message, reason, eventTypes, after, before }: DeadFilter,
): boolean {
  if (endpoint !== null && letter.endpoint !== endpoint) return false
  if (message !== null && letter.message !== message) return false
  if (reason !== null && letter.reason !== reason) return false
  if (letter.diedAt < after || letter.diedAt >= before) return false
  return isMatched(eventType ?? '', eventTypes)
}
