import { type Page, type PageRequest, toPage } from '../page.ts'
import type { Query } from './connection.ts'

export function pageOf<Row, Item>(
  page: PageRequest,
  query: Query<Row>,
  within: readonly number[],
  toItem: (row: Row) => Item,
): Page<Item> {
  const start = page.after ?? (page.order === 'ascending' ? 0 : Number.MAX_SAFE_INTEGER)
  const rows = query.all(...within, start, page.limit + 1)
  return toPage(rows, page.limit, toItem)
}
