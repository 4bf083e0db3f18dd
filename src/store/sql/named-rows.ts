import { AppError } from '../../domain/app-error.ts'
import type { Identity } from '../../domain/ids.ts'
import type { Page, PageRequest } from '../store.ts'
import { forUpdate } from './dialect.ts'
import type { Port, Sql, Work } from './port.ts'
import {
  assignments,
  beyond,
  direction,
  type InBothOrders,
  inBothOrders,
  listStart,
  parameters,
  type Shape,
  type Statement,
  statement,
  toPage,
  type Values,
} from './statement.ts'

// Rows that callers name by an id, or by a uid that they chose, and list in pages.

interface NamedRow {
  readonly id: string
  /** Absent for a row of the server. */
  readonly app?: number
}

/**
 * The statements of a table whose rows are known by key and by uid: within an application, or within the server for a table
 * without owners.
 */
export function namedTable<Row>(
  name: string,
  owner: 'application' | undefined,
  columns: string,
  settable: readonly string[],
  shape: Shape<Row>,
) {
  const [app, within] = owner === undefined ? [[], ''] : [['app'], 'app = :app and ']
  const inserted = ['key', 'id', ...app, ...settable]
  const select = `select ${columns} from ${name} where`
  return {
    insert: statement<Identity>(`insert-${name}`)`
      insert into ${name} (${inserted.join(', ')}, created_at, updated_at)
      values (${parameters(inserted)}, :at, :at) on conflict (key) do nothing returning key, id`,
    update: statement(`update-${name}`)`update ${name} set ${assignments(settable)}, updated_at = :at where key = :key`,
    remove: statement(`delete-${name}`)`delete from ${name} where ${within}key = :key returning key`,
    byKey: statement<Row>(name, shape)`${select} key = :key`,
    locked: statement<Row>(`lock-${name}`, shape)`${select} key = :key ${forUpdate}`,
    // Leans on the unique index over the uid.
    byUid: statement<Row>(`${name}-by-uid`, shape)`${select} ${within}uid = :uid`,
    // Ranges of the index over the application, and of the primary key.
    ofOwner: inBothOrders<Row>(`${name}s`, shape)`
      ${select} ${within}key ${beyond} :after order by key ${direction} limit :limit`,
    ...(owner !== undefined && {
      ofAll: inBothOrders<Row>(`all-${name}s`, shape)`
        ${select} key ${beyond} :after order by key ${direction} limit :limit`,
    }),
    count: statement<{ count: number }>(`count-${name}s`)`
      select count(*) as count from ${name}${owner === undefined ? '' : ' where app = :app'}`,
  }
}

/** The row that a ref names within an application, or within the server with null: an id, whose key is given, or a uid. */
export function* findNamed<Row extends NamedRow>(
  sql: Sql,
  { byKey, byUid }: { readonly byKey: Statement<Row>; readonly byUid: Statement<Row> },
  key: number | undefined,
  app: number | null,
  ref: string,
): Work<Row | undefined> {
  const named = key === undefined ? undefined : yield* sql.first(byKey, { key })
  if (named?.id === ref && (named.app ?? null) === app) return named
  return yield* sql.first(byUid, { ...(app !== null && { app }), uid: ref })
}

/** As `readPage`, of the rows of one application, or of all with null. */
export function listNamed<Row, Item>(
  sql: Sql,
  { ofOwner, ofAll = ofOwner }: { readonly ofOwner: InBothOrders<Row>; readonly ofAll?: InBothOrders<Row> },
  app: number | null,
  page: PageRequest,
  toItem: (row: Row) => Item,
): Work<Page<Item>> {
  return app === null ? readPage(sql, ofAll, {}, page, toItem) : readPage(sql, ofOwner, { app }, page, toItem)
}

/**
 * Reads one page of a list, whose statement has `:after` and `:limit`, and makes an item of each row. One row more than asked
 * is read, which shows whether there are more.
 */
export function* readPage<Row, Item>(
  sql: Sql,
  list: InBothOrders<Row>,
  values: Values,
  { limit, order, after }: PageRequest,
  toItem: (row: Row) => Item,
): Work<Page<Item>> {
  const rows = yield* sql.all(list[order], { ...values, after: after ?? listStart(order), limit: limit + 1 })
  return toPage(rows.map(toItem), limit)
}

/** Runs work that may store the uid of `named`; throws AppError `conflict` when the uid is taken. */
export function* conflictOnUid<T>(port: Port, named: { uid?: string | null }, work: () => Work<T>): Work<T> {
  try {
    return yield* work()
  } catch (error) {
    if (!port.isUidTaken(error)) throw error
    throw new AppError('conflict', `The uid ${JSON.stringify(named.uid)} is already in use.`, [], { cause: error })
  }
}
