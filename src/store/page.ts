/** Items after `after` (a key, exclusive) in the asked order of keys. */
export interface PageRequest<Key = number> {
  readonly limit: number
  readonly order: 'ascending' | 'descending'
  readonly after: Key | null
}

export interface Page<T> {
  readonly items: T[]
  /** Whether nothing lies beyond the last item. */
  readonly done: boolean
}

/** A page from rows that were read with a limit of one more than asked, which shows whether there are more. */
export function toPage<Item>(rows: readonly Item[], limit: number): Page<Item> {
  return { items: rows.slice(0, limit), done: rows.length <= limit }
}

/** A key in front of all keys that a list in this order begins with. */
export function listStart(order: PageRequest['order']): number {
  return order === 'ascending' ? -1 : Number.MAX_SAFE_INTEGER
}
