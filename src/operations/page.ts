import { Readable } from 'node:stream'
import { type Static, Type } from 'typebox'
import { pageItems } from '../domain/api.ts'
import { AppError } from '../domain/app-error.ts'
import type { Clock, EpochMs } from '../domain/clock.ts'
import { decodeKey, firstKeyAt, type Prefix } from '../domain/ids.ts'
import { Turns } from '../domain/turns.ts'
import type { Page, PageRequest } from '../store/store.ts'
import { optional, shortText } from './fields.ts'
import { readInstants } from './validate.ts'

/**
 * Pages of lists. A page is bounded in items, in bytes and in the rows that are looked at for it; a page that meets one of
 * the last two bounds is shorter than asked, not `done`, and its iterator goes on exactly behind it. The bounds are met
 * before a body is read: a list gives the size of each item, and `writePage` reads the bodies, a few at a time, as fast as
 * the client takes them.
 */

/** The query every list takes. */
export const PageQuery = Type.Object({
  limit: optional(
    Type.Integer({ minimum: 1, maximum: pageItems.most }),
    `Largest number of items; ${pageItems.usual} by default.`,
  ),
  iterator: optional(
    Type.String({ maxLength: 264 }),
    'Position to continue from: the `iterator` or `prevIterator` of another page.',
  ),
  order: optional(
    Type.Enum(['ascending', 'descending']),
    'Sort direction: by age, or by name in lists that are sorted by name.',
  ),
})
export type PageQuery = Static<typeof PageQuery>

/** A page of a list. `iterator` asks for the next page, `prevIterator` for the one before; both are set even at the end. */
export interface ListOut<T> {
  readonly data: readonly T[]
  readonly iterator: string | null
  readonly prevIterator: string | null
  readonly done: boolean
}

type Order = PageRequest['order']

/** Largest size of the items of a page together. */
const pageBytes = 4 * 1024 * 1024
/** The same for items that are no bytes yet: one call turns all of them into text. */
const objectBytes = 1024 * 1024
/** Bodies that are in memory for one answer at a time, unless one alone takes more. */
const partBytes = 256 * 1024
/** Size of an item without its body. */
export const itemBytes = 1024
/** Rows read per page, so that a filter that few rows meet does not read the whole table. */
const scanLimit = 2000
const chunkRows = 250

/** Where the rows of a list lie. */
interface Places<Row, Position> {
  readonly positionOf: (row: Row) => Position
  /** An iterator's text, without a minus in front. */
  readonly write: (row: Row) => string
  /** The position a text names; undefined when it names none. */
  readonly parse: (text: string) => Position | undefined
}

/** The places of a list that is ordered by ids. */
export function byId(prefix: Prefix): Places<{ readonly id: string }, number> {
  const parse = (text: string) => decodeKey(prefix, text)
  return { positionOf: ({ id }) => parse(id) as number, write: ({ id }) => id, parse }
}

/** The places of a list that is ordered by names. A name may begin with a minus, so an iterator begins with the kind. */
export function byName(kind: string): Places<{ readonly name: string }, string> {
  const start = `${kind}_`
  const parse = (text: string) => (text.startsWith(start) ? text.slice(start.length) : undefined)
  return { positionOf: ({ name }) => name, write: ({ name }) => start + name, parse }
}

/** A list that is walked row by row. A filter may leave out most of the rows. */
export interface Walked<Row, Item extends { readonly row: Row }, Position> extends Places<Row, Position> {
  /** Rows behind a position, in the asked order; fewer than the limit only at the end. */
  read(after: Position | null, order: Order, limit: number): Promise<Row[]>
  /**
   * The items that are shown for these rows, in their order. A list for which looking at rows is work may look at the first
   * few only, one at least; the page ends behind these.
   */
  keep(rows: Row[]): Promise<Item[] | { readonly items: Item[]; readonly looked: number }>
  /** Whether every row is shown, so that a page reads no more rows than it shows. */
  readonly keepsAll: boolean
  /** Rows read at once, where a row may be large. Each reading has a turn of its own, among those of all callers. */
  readonly rowsAtOnce?: number
  /** The size of an item; `itemBytes` by default. */
  bytesOf?(item: Item): number
  /** Largest size of the items together, unless the first alone is larger; `pageBytes` by default. */
  readonly mostBytes?: number
}

/** Walks a list to the end of a page. */
export async function walk<Row, Item extends { readonly row: Row }, Position>(
  clock: Clock,
  query: PageQuery,
  list: Walked<Row, Item, Position>,
): Promise<ListOut<Item>> {
  const { limit = pageItems.usual, order = 'descending' } = query
  const { backwards, after } = start(query, list.parse)
  const direction = backwards === (order === 'ascending') ? 'descending' : 'ascending'
  const { mostBytes = pageBytes } = list
  const shown: Item[] = []
  let position: Position | null = after
  let last: Row | undefined
  let [bytes, scanned] = [0, 0]
  let [done, full, spent] = [false, false, false]
  while (!done && !full && !spent && scanned < scanLimit) {
    if (scanned > 0 || list.rowsAtOnce !== undefined) await Turns.by(clock).next()
    const count = Math.min(list.keepsAll ? limit + 1 - shown.length : chunkRows, list.rowsAtOnce ?? chunkRows)
    const rows = await list.read(position, direction, count)
    const kept = await list.keep(rows)
    const { items, looked } = Array.isArray(kept) ? { items: kept, looked: rows.length } : kept
    spent = looked < rows.length
    done = rows.length < count && !spent
    scanned += looked
    for (const item of items) {
      const size = sizeOf(list, item)
      full = shown.length === limit || (shown.length > 0 && bytes + size > mostBytes)
      if (full) break
      shown.push(item)
      bytes += size
    }
    last = rows[looked - 1] ?? last
    position = last === undefined ? position : list.positionOf(last)
  }
  if (full) done = false
  // A full page ends at its last item; any other page ends at the last row that was read.
  const end = full || done ? shown.at(-1)?.row : last
  if (backwards) shown.reverse()
  const [first, final] = backwards ? [end ?? shown[0]?.row, shown.at(-1)?.row] : [shown[0]?.row, end]
  return {
    data: shown,
    iterator: final === undefined ? null : list.write(final),
    prevIterator: first === undefined ? null : `-${list.write(first)}`,
    done,
  }
}

/**
 * Walks a list to the end of a page and answers its JSON. `write` makes JSON of some of the items and reads their bodies for it;
 * it is called when the client has taken the items before them, and no more when it hangs up.
 */
export async function writePage<Row, Item extends { readonly row: Row }, Position>(
  clock: Clock,
  query: PageQuery,
  list: Walked<Row, Item, Position>,
  write: (items: readonly Item[]) => Promise<Buffer[]>,
): Promise<Buffer | Readable> {
  const { data, iterator, prevIterator, done } = await walk(clock, query, list)
  const tail = JSON.stringify({ iterator, prevIterator, done })
  const parts = splitByBytes(data, (item) => sizeOf(list, item))
  return writeParts(clock, '{"data":[', parts, write, `],${tail.slice(1)}`)
}

/** JSON with a list in it, of which a part at a time is made; whole when there is only one part. */
export async function writeParts<Item>(
  clock: Clock,
  head: string,
  parts: readonly (readonly Item[])[],
  write: (items: readonly Item[]) => Promise<Buffer[]>,
  tail: string,
): Promise<Buffer | Readable> {
  async function* bytes(): AsyncGenerator<Buffer> {
    let before = head
    for (const part of parts) {
      if (parts.length > 1) await Turns.by(clock).next()
      const items = await write(part)
      yield Buffer.concat(items.flatMap((item, i) => [Buffer.from(i === 0 ? before : ','), item]))
      if (items.length > 0) before = ','
    }
    yield Buffer.from(before === head ? head + tail : tail)
  }
  if (parts.length > 1) return streamOf(bytes())
  const whole: Buffer[] = []
  for await (const chunk of bytes()) whole.push(chunk)
  return Buffer.concat(whole)
}

/** Bytes that are made as fast as the client takes them. */
export function streamOf(bytes: AsyncGenerator<Buffer>): Readable {
  return Readable.from(bytes, { objectMode: false, highWaterMark: partBytes })
}

/** Items in groups whose bodies may be in memory at the same time. */
export function splitByBytes<Item>(items: readonly Item[], bytesOf: (item: Item) => number): Item[][] {
  const parts: Item[][] = []
  let room = 0
  for (const item of items) {
    const size = bytesOf(item)
    if (parts.length === 0 || size > room) {
      parts.push([])
      room = partBytes
    }
    parts.at(-1)?.push(item)
    room -= size
  }
  return parts
}

/** A list whose items have no bodies. */
interface Listed<Row, Position, Out> extends Places<Row, Position> {
  list(page: PageRequest<Position>): Promise<Page<Row>>
  toOut(row: Row): Out
  /** Rows read at once, where a row may be large; 64 by default. */
  readonly rowsAtOnce?: number
  /** The rows that are shown, and how many were looked at; all by default. */
  keep?(rows: Row[]): Promise<{ readonly kept: readonly Row[]; readonly looked: number }>
}

/** A page of a list without bodies: its rows, each with its form in the answer. */
export function listRows<Row, Position, Out>(clock: Clock, query: PageQuery, listed: Listed<Row, Position, Out>) {
  const { list, toOut, keep, rowsAtOnce = 64, ...places } = listed
  return walk<Row, { readonly row: Row; readonly out: Out }, Position>(clock, query, {
    ...places,
    rowsAtOnce,
    read: async (after, order, limit) => (await list({ after, order, limit })).items,
    keep: async (rows) => {
      const { kept, looked } = (await keep?.(rows)) ?? { kept: rows, looked: rows.length }
      return { items: kept.map((row) => ({ row, out: toOut(row) })), looked }
    },
    keepsAll: keep === undefined,
    bytesOf: ({ out }) => Buffer.byteLength(JSON.stringify(out)),
    mostBytes: objectBytes,
  })
}

/** A page of a list without bodies, as the answer shows it. */
export async function paginate<Row, Position, Out>(
  clock: Clock,
  query: PageQuery,
  listed: Listed<Row, Position, Out>,
): Promise<ListOut<Out>> {
  const page = await listRows(clock, query, listed)
  return { ...page, data: page.data.map(({ out }) => out) }
}

/** An iterator made of several numbers, for lists that are not sorted by one id. */
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

/**
 * The same query, with an iterator of the list in place of the id of one of its items, which Svix's iterators are. `find`
 * gives the iterator of an item, or undefined when the text is none of its ids.
 */
export async function fromItem<Query extends PageQuery>(
  query: Query,
  find: (id: string) => Promise<string | undefined>,
): Promise<Query> {
  if (query.iterator === undefined) return query
  const [, minus = '', id = ''] = /^(-?)(.*)$/s.exec(query.iterator) ?? []
  const iterator = await find(id)
  return iterator === undefined ? query : { ...query, iterator: `${minus}${iterator}` }
}

/** Where a page starts. An iterator is the position to continue behind; with a minus in front, backwards. */
function start<Position>({ iterator }: PageQuery, parse: (text: string) => Position | undefined) {
  if (iterator === undefined) return { backwards: false, after: null }
  const backwards = iterator.startsWith('-')
  const after = parse(backwards ? iterator.slice(1) : iterator)
  if (after !== undefined) return { backwards, after }
  const problem = { at: ['query', 'iterator'], message: 'is not an iterator of this list', type: 'iterator' }
  throw new AppError('validation', 'The iterator is not valid.', [problem])
}

function sizeOf<Item>(list: { bytesOf?(item: Item): number }, item: Item): number {
  return list.bytesOf?.(item) ?? itemBytes
}

const lookBackMs = 90 * 24 * 60 * 60 * 1000

/** The time a list covers: from `after` on, up to `before`, or without either the last 90 days. */
export function readTimes(
  query: { readonly before?: string; readonly after?: string },
  now: EpochMs,
): { from: EpochMs; until: EpochMs } {
  const { before, after } = readInstants('query', { before: query.before, after: query.after })
  const oldest = before === undefined ? now - lookBackMs : 0
  return { from: after ?? oldest, until: before ?? Number.MAX_SAFE_INTEGER }
}

/** The same time as a range of keys. */
export function keyRangeOf({ from, until }: { readonly from: EpochMs; readonly until: EpochMs }) {
  return { from: keyAt(from), until: keyAt(until) }
}

function keyAt(at: EpochMs): number {
  return Math.min(Math.max(0, firstKeyAt(at)), Number.MAX_SAFE_INTEGER)
}

/** The parameter of a list that is searched. */
export function searchFor(description: string) {
  return optional(shortText(256), description)
}

/** Whether one of the names contains a text, in any case. */
export function matches(names: readonly (string | null)[], text: string): boolean {
  const wanted = text.toLowerCase()
  return names.some((name) => name?.toLowerCase().includes(wanted))
}
