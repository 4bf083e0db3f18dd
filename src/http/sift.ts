import { AppError } from '../domain/app-error.ts'
import type { Order } from '../store/browsing.ts'
import type { ListOut, PageQuery } from './pagination.ts'

/** Rows looked at per request: a filter that hardly anything meets must not read everything there is. */
const scanLimit = 2000
const chunkRows = 250
const defaultLimit = 50

/** A list of which a filter may leave out most. */
export interface Sifted<Row, Kept extends { readonly row: Row }, Position> {
  /** Rows behind a position, in the asked order. */
  read(after: Position | null, order: Order, limit: number): Promise<Row[]>
  /** What is kept of these rows, in their order. */
  keep(rows: Row[]): Promise<Kept[]>
  /** Whether everything is kept, so that no row need be read in vain. */
  readonly keepsAll: boolean
  positionOf(row: Row): Position
  /** An iterator's text, without a minus in front. */
  write(row: Row): string
  /** The position a text names; undefined when it names none. */
  parse(text: string): Position | undefined
}

/**
 * Answers a page of what a filter leaves. When much has to be looked at for it, the page is shorter than asked, perhaps
 * empty, and not `done`: the iterator then goes on behind the last row that was looked at.
 */
export async function sift<Row, Kept extends { readonly row: Row }, Position>(
  query: PageQuery,
  list: Sifted<Row, Kept, Position>,
): Promise<ListOut<Kept>> {
  const { limit = defaultLimit, iterator, order = 'descending' } = query
  const backwards = iterator?.startsWith('-') ?? false
  const direction = backwards ? reversed(order) : order
  let position = iterator === undefined ? null : read(list, backwards ? iterator.slice(1) : iterator)
  const kept: Kept[] = []
  let last: Row | undefined
  let done = false
  for (let scanned = 0; scanned < scanLimit && kept.length <= limit && !done; ) {
    const count = list.keepsAll ? limit + 1 - kept.length : chunkRows
    const rows = await list.read(position, direction, count)
    kept.push(...(await list.keep(rows)))
    scanned += rows.length
    last = rows.at(-1) ?? last
    done = rows.length < count
    position = last === undefined ? position : list.positionOf(last)
  }
  if (kept.length > limit) done = false
  const shown = kept.slice(0, limit)
  // Behind a full page lies what did not fit on it; behind any other, what was not looked at.
  const end = shown.length === limit ? shown.at(-1)?.row : done ? shown.at(-1)?.row : last
  if (backwards) shown.reverse()
  const edges = backwards ? [end ?? shown[0]?.row, shown.at(-1)?.row] : [shown[0]?.row, end]
  const [first, final] = edges.map((row) => (row === undefined ? null : list.write(row)))
  return {
    data: shown,
    iterator: final ?? null,
    prevIterator: first == null ? null : `-${first}`,
    done,
  }
}

function read<Row, Kept extends { readonly row: Row }, Position>(
  list: Sifted<Row, Kept, Position>,
  text: string,
): Position {
  const position = list.parse(text)
  if (position !== undefined) return position
  const problem = { at: ['query', 'iterator'], message: 'is not an iterator of this list', type: 'iterator' }
  throw new AppError('validation', 'The iterator is not valid.', [problem])
}

/** An iterator made of several numbers, for lists whose order no single id tells. */
export const numbers = {
  write: (...parts: readonly number[]) => parts.map((part) => part.toString(36)).join('.'),
  /** Undefined unless the text is that many whole numbers. */
  parse(text: string, count: number): number[] | undefined {
    const parts = text.split('.')
    if (parts.length !== count || !parts.every((part) => /^[0-9a-z]{1,11}$/.test(part))) return undefined
    const values = parts.map((part) => Number.parseInt(part, 36))
    return values.every(Number.isSafeInteger) ? values : undefined
  },
}

function reversed(order: Order): Order {
  return order === 'ascending' ? 'descending' : 'ascending'
}
