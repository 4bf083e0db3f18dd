import { type Static, Type } from 'typebox'
import { AppError } from '../domain/app-error.ts'
import { decodeKey, type Prefix } from '../domain/ids.ts'
import type { Page, PageRequest } from '../store/store.ts'

/** The query every list takes. */
export const PageQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 250 })),
  iterator: Type.Optional(Type.String({ maxLength: 264 })),
  order: Type.Optional(Type.Enum(['ascending', 'descending'])),
})
export type PageQuery = Static<typeof PageQuery>

/** A page of a list. `iterator` asks for what follows, `prevIterator` for what came before; both are set even at the end. */
export interface ListOut<T> {
  readonly data: T[]
  readonly iterator: string | null
  readonly prevIterator: string | null
  readonly done: boolean
}

type Order = PageRequest['order']

const defaultLimit = 50

/** Answers a page of what `list` lists. An iterator is the id to continue behind; with a minus in front, backwards. */
export function paginate<T extends { readonly id: string }, Out>(
  prefix: Prefix,
  query: PageQuery,
  defaultOrder: Order,
  list: (page: PageRequest) => Promise<Page<T>>,
  toOut: (item: T) => Out,
): Promise<ListOut<Out>> {
  const iterators = { keyOf: (text: string) => decodeKey(prefix, text), iteratorOf: ({ id }: T) => id }
  return paginateBy(iterators, query, defaultOrder, list, toOut)
}

/** How the iterators of a list are written and read. */
export interface Iterators<Key, T> {
  /** The key to continue behind; undefined when the text is no iterator of the list. */
  keyOf(text: string): Key | undefined
  iteratorOf(item: T): string
}

/** The same for a list that is not ordered by ids. */
export async function paginateBy<Key, T, Out>(
  { keyOf, iteratorOf }: Iterators<Key, T>,
  query: PageQuery,
  defaultOrder: Order,
  list: (page: PageRequest<Key>) => Promise<Page<T>>,
  toOut: (item: T) => Out,
): Promise<ListOut<Out>> {
  const { limit = defaultLimit, iterator, order = defaultOrder } = query
  const backwards = iterator?.startsWith('-') ?? false
  const after = iterator === undefined ? null : found(keyOf(backwards ? iterator.slice(1) : iterator))
  const { items, done } = await list({ limit, after, order: backwards ? reversed(order) : order })
  if (backwards) items.reverse()
  const [first, last] = [items[0], items.at(-1)]
  return {
    data: items.map(toOut),
    iterator: last === undefined ? null : iteratorOf(last),
    prevIterator: first === undefined ? null : `-${iteratorOf(first)}`,
    done,
  }
}

/** A source for `paginate` over a list that is already in memory and ascending by key. */
export function pageOver<T>(
  items: readonly T[],
  keyOfItem: (item: T) => number,
): (page: PageRequest) => Promise<Page<T>> {
  return async ({ limit, order, after }) => {
    const ordered = order === 'ascending' ? [...items] : items.toReversed()
    const rest =
      after === null
        ? ordered
        : ordered.filter((item) => (order === 'ascending' ? keyOfItem(item) > after : keyOfItem(item) < after))
    return { items: rest.slice(0, limit), done: rest.length <= limit }
  }
}

function found<Key>(key: Key | undefined): Key {
  if (key !== undefined) return key
  const problem = { at: ['query', 'iterator'], message: 'is not an iterator of this list', type: 'iterator' }
  throw new AppError('validation', 'The iterator is not valid.', [problem])
}

function reversed(order: Order): Order {
  return order === 'ascending' ? 'descending' : 'ascending'
}
