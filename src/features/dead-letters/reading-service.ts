import type { DeadLetterSummary, MessageSummary } from '../../domain/delivery.ts'
import type { Order } from '../../store/messages.ts'
import type { Store } from '../../store/store.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import type { DeadFilter } from '../tasks/rules.ts'
import type { DeadRange } from './store.ts'

/** A dead letter with the things that a filter and an answer need of it. */
export interface Described {
  readonly row: DeadLetterSummary
  readonly message: MessageSummary | undefined
  readonly endpoint: Endpoint | undefined
}

/** Dead letters with their messages and endpoints. */
export async function describedLetters(store: Store, letters: readonly DeadLetterSummary[]): Promise<Described[]> {
  const [summaries, endpoints] = await Promise.all([
    store.loadSummaries([...new Set(letters.map(({ message }) => message))]),
    store.loadEndpoints([...new Set(letters.map(({ endpoint }) => endpoint))]),
  ])
  const messageOf = new Map(summaries.map((summary) => [summary.key, summary]))
  const endpointOf = new Map(endpoints.map((endpoint) => [endpoint.key, endpoint]))
  return letters.map((row) => ({ row, message: messageOf.get(row.message), endpoint: endpointOf.get(row.endpoint) }))
}

/** Whether a dead letter meets the parts of a filter that its list does not. */
export function meets({ row, message }: Described, { message: key, reason, eventTypes }: DeadFilter): boolean {
  if (key !== null && row.message !== key) return false
  if (reason !== null && row.reason !== reason) return false
  return eventTypes === null || eventTypes.includes(message?.eventType ?? '')
}

/** The list that holds the dead letters of a filter. */
export function rangeOf(filter: DeadFilter, after: DeadRange['after'], order: Order, limit: number): DeadRange {
  return { endpoint: filter.endpoint, from: filter.after, until: filter.before, after, order, limit }
}
