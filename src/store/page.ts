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
