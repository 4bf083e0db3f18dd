import { keyTime } from '../../domain/ids.ts'
import type { RowName } from '../delivering.ts'

// In a notification, each message with named rows is its key, the milliseconds from the instant of its key to that at which
// the rows are due, and the positions of their endpoints in the list in front; without positions, all of the list is meant.

/** Names rows of these endpoints in a notification. The rows of one message are due at one instant. */
export function writeNames(endpoints: readonly number[], names: readonly RowName[]): string {
  const positions = new Map(endpoints.map((endpoint, i) => [endpoint, i]))
  const messages = Map.groupBy(names, ({ message }) => message)
  return [...messages]
    .map(([message, rows]) => {
      const dueAt = rows[0]?.dueAt ?? 0
      const places =
        rows.length === endpoints.length ? [] : rows.map(({ endpoint }) => positions.get(endpoint) as number)
      return [message, dueAt - keyTime(message), ...places].map((number) => number.toString(36)).join('.')
    })
    .join(',')
}

/** The rows that a notification names. */
export function readNames(endpoints: readonly number[], text: string): RowName[] {
  return text.split(',').flatMap((part) => {
    const [message = 0, wait = 0, ...places] = part.split('.').map((number) => Number.parseInt(number, 36))
    const named = places.length === 0 ? endpoints : places.map((place) => endpoints[place] as number)
    return named.map((endpoint) => ({ endpoint, message, dueAt: keyTime(message) + wait }))
  })
}
