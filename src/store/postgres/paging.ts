import { type Page, type PageRequest, toPage } from '../page.ts'
import { type Sessions, type Statement, statement } from './sessions.ts'

export interface Paged {
  readonly ascending: Statement
  readonly descending: Statement
}

/** Both orders of a listing by key: `$1` is where to start, `$2` how many. */
export function paged(name: string, select: string, within = ''): Paged {
  return {
    ascending: statement(
      `${name}-up`,
      `${select} where ${within} key > $1 and deleted_at is null order by key limit $2`,
    ),
    descending: statement(
      `${name}-down`,
      `${select} where ${within} key < $1 and key > 0 and deleted_at is null order by key desc limit $2`,
    ),
  }
}

export async function pageOf<Row, Item>(
  sessions: Sessions,
  statements: Paged,
  page: PageRequest,
  within: readonly number[],
  toItem: (row: Row) => Item,
): Promise<Page<Item>> {
  const start = page.after ?? (page.order === 'ascending' ? 0 : Number.MAX_SAFE_INTEGER)
  const rows = await sessions.run<Row>(statements[page.order], [start, page.limit + 1, ...within])
  return toPage(rows, page.limit, toItem)
}
