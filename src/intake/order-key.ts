import { hash } from 'node:crypto'
import type { Flow } from '../domain/flow.ts'

/** What a first-in-first-out lane has instead of keys. */
const onlyKey = 0

/**
 * What a delivery has in common with those it must not overtake; undefined when it may overtake any. Of a million keys, two
 * share a number once in five hundred times: those go one behind the other without need.
 */
export function orderKeyOf(order: Flow['order'], orderingKey: string | null): number | undefined {
  if (order === 'fifo') return onlyKey
  if (order === 'none' || orderingKey === null) return undefined
  return 1 + hash('sha256', orderingKey, 'buffer').readUIntBE(0, 6)
}
