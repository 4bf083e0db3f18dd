import { type Static, Type } from 'typebox'
import { AppError } from '../domain/app-error.ts'
import { decodeKey, type Prefix } from '../domain/ids.ts'
import type { Page, PageRequest } from '../store/store.ts'

/** The query every list takes. */
export const PageQuery = Type.Object({
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 250 })),
  iterator: Type.Optional(Type.String({ maxLength: 257 })),
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
export async function paginate<T extends { readonly id: string }, Out>(
  prefix: Prefix,
  query: PageQuery,
  defaultOrder: Order,
  list: (page: PageRequest) => Promise<Page<T>>,
  toOut: (item: T) => Out,
): Promise<ListOut<Out>> {
  const { limit = defaultLimit, iterator, order = defaultOrder } = query
  const backwards = iterator?.startsWith('-') ?? false
  const after = iterator === undefined ? null : keyOf(prefix, backwards ? iterator.slice(1) : iterator)
  const { items, done } = await list({ limit, after, order: backwards ? reversed(order) : order })
  if (backwards) items.reverse()
  const first = items[0]
  return {
    data: items.map(toOut),
    iterator: items.at(-1)?.id ?? null,
    prevIterator: first === undefined ? null : `-${first.id}`,
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

function keyOf(prefix: Prefix, id: string): number {
  const key = decodeKey(prefix, id)
  if (key !== undefined) return key
  const problem = { at: ['query', 'iterator'], message: 'is not an iterator of this list', type: 'iterator' }
  throw new AppError('validation', 'The iterator is not valid.', [problem])
}

function reversed(order: Order): Order {
  return order === 'ascending' ? 'descending' : 'ascending'
}
