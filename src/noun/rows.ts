import type { EpochMs } from '../domain/clock.ts'
import { defined, type Form, isSame, queryName } from '../domain/field.ts'
import { decodeKey, type Prefix } from '../domain/ids.ts'
import { conflictOnUid, findNamed, listNamed, namedTable } from '../store/sql/named-rows.ts'
import { type Limit, lockForOneMore } from '../store/sql/owners.ts'
import { insertNew, type Port, type Sql, type Work } from '../store/sql/port.ts'
import { columnsOf, type Shape, snakeCase, type Value, type Values, valuesOf } from '../store/sql/statement.ts'
import type { Page, PageRequest } from '../store/store.ts'
import { openValue, type SealedPlace, sealValue, unlessDamaged } from '../store/vault.ts'
import { type Declaration, entriesOf, type New, type State, sealedOf, stateOf } from './noun.ts'

/** How the fields of a noun and its state are stored: a column each, in the order of the declaration. */
export interface Row<N extends Declaration, Thing> {
  /** The columns of the fields and the state. */
  readonly settable: readonly string[]
  /** The same by the names of the fields. */
  readonly named: Readonly<Record<keyof Thing & string, string>>
  /** All columns, named as the fields of a thing. */
  readonly columns: string
  readonly shape: Shape<Thing>
  /** The values of those columns. */
  valuesOf(input: New<N> & State<N>): Values
}

/** The row of a noun with these other columns behind its fields: `createdAt` for `created_at`. */
export function rowOf<N extends Declaration, Thing>(noun: N, ...others: (keyof Thing & string)[]): Row<N, Thing> {
  type Name = keyof Thing & string
  const [fields, state, isSealed] = [entriesOf(noun), stateOf(noun), new Map(sealedOf(noun))]
  const columns = new Set([...fields.map(([name, field]) => field.in ?? name), ...state.map(([name]) => name)])
  const own = fields.flatMap(([name, { column }]) => (column === undefined ? [] : [[name, column]]))
  const settable: Record<Name, string> = { ...snakeCase(...([...columns] as Name[])), ...Object.fromEntries(own) }
  const inForm = (as: 'json' | 'flag', ...forms: Form['is'][]) => [
    ...fields.flatMap(([name, { kind, in: column }]) =>
      column === undefined && forms.includes(kind.is) && !isSealed.has(name) ? [name as Name] : [],
    ),
    ...state.flatMap(([name, kept]) => (kept.as === as ? [name as Name] : [])),
  ]
  const json = [...inForm('json', 'list', 'labels', 'headers', 'object'), ...(columnsOfSeveral(noun) as Name[])]
  const flags = inForm('flag', 'boolean')
  return {
    settable: Object.values(settable),
    named: settable,
    columns: columnsOf<Thing>({ ...settable, ...snakeCase(...others) }),
    shape: { json, flags, ...(isSealed.size > 0 && { sealed: [...isSealed.keys()] as Name[] }) },
    valuesOf: (input) => valuesOf<object>(input, settable),
  }
}

/** The columns of JSON that have several fields. */
function columnsOfSeveral(noun: Declaration): string[] {
  return [...new Set(entriesOf(noun).flatMap(([, { in: column }]) => column ?? []))]
}

/** A noun whose things have ids, and of which an owner has a limited number. */
type Keyed = Declaration & { readonly prefix: Prefix; readonly limit: Limit }
/** The parts of a thing that the methods of its rows rest on. */
interface Basis {
  readonly key: number
  readonly id: string
  readonly app?: number
  readonly uid?: string | null
  readonly damaged?: true
  readonly createdAt: EpochMs
  readonly updatedAt: EpochMs
}

interface Beside<Thing> {
  /** Columns that follow from the thing, for statements that search it. */
  readonly derived?: Readonly<Record<string, (thing: Thing) => Value>>
  /** The effect of a sealed record that does not open: the beginning of a sentence in the log. */
  readonly effect?: (id: string) => string
}

/** The rows of a noun whose things have an id and may have a uid. */
export function thingsOf<N extends Keyed, Thing extends Basis>(noun: N, beside: Beside<Thing> = {}) {
  type Column = keyof Thing & string
  const { table: name, prefix, owner, limit } = noun
  const { derived = {}, effect = (id) => `${id} cannot be used` } = beside
  const own: readonly string[] = ['key', 'id', ...(owner === undefined ? [] : ['app']), 'createdAt', 'updatedAt']
  const { settable, columns, shape, valuesOf } = rowOf<N, Thing>(noun, ...(own as Column[]))
  const table = namedTable<Thing>(name, owner, columns, [...settable, ...Object.keys(derived)], shape)
  const records = sealedOf(noun)

  /** The methods that every such noun has. `app` is null for things of the server. */
  function on(port: Port) {
    const { vault, log } = port.context

    /** The thing of a row. Records that do not open read as empty; the log has a line, and the thing is damaged. */
    function opened<Stored extends Thing>(row: Stored): Stored {
      if (records.length === 0) return row
      const values = new Map(Object.entries(row))
      const open = () =>
        records.map(([field]) => [field, openValue(vault, values.get(field), placeOf(noun, row, field))])
      const found = unlessDamaged(open, log, effect(row.id))
      return {
        ...row,
        ...(found === undefined ? { ...Object.fromEntries(records), damaged: true } : Object.fromEntries(found)),
      }
    }

    /** The values of the settable columns. Damaged records that are not replaced stay as they are `stored`. */
    function toValues(thing: Thing, stored?: Thing): Values {
      const values = new Map<string, unknown>(Object.entries(stored !== undefined && thing.damaged ? stored : thing))
      const seal = (record: object | null, field: string) =>
        record && { sealed: thing.damaged ? record : sealValue(vault, record, placeOf(noun, thing, field)) }
      return {
        ...valuesOf(thing as unknown as New<N> & State<N>),
        ...Object.fromEntries(
          records.map(([field]) => [queryName(field), seal(values.get(field) as object | null, field)]),
        ),
        ...Object.fromEntries(Object.entries(derived).map(([column, of]) => [column, of(thing)])),
      }
    }

    return {
      opened,

      /**
       * Rejects with AppError `conflict` when the uid is taken, `quota_exceeded` when there are `atMost` already, and
       * `not_found` when the application is gone.
       */
      *create(
        app: number | null,
        atMost: number | undefined,
        make: (key: number, now: EpochMs) => Made<Thing>,
      ): Work<Thing> {
        const named: { uid: string | null } = { uid: null }
        return yield* conflictOnUid(port, named, () =>
          port.transaction(function* (sql) {
            yield* lockForOneMore(sql, app, table.count, { ...limit, most: atMost ?? limit.most })
            const at = yield* sql.now()
            const times = { createdAt: at, updatedAt: at, ...(app !== null && { app }) }
            let made = {} as Thing
            const { id } = yield* insertNew(sql, prefix, table.insert, ({ key }) => {
              made = { ...make(key, at), ...times, key } as Thing
              named.uid = made.uid ?? null
              return { ...toValues(made), ...(app !== null && { app }), at }
            })
            return { ...made, id }
          }),
        )
      },

      /** By id or uid. */
      *find(app: number | null, ref: string): Work<Thing | undefined> {
        const row = yield* findNamed(port, table, decodeKey(prefix, ref), app, ref)
        return row && opened(row)
      },

      /** Those of an application, or all with null. */
      list: (app: number | null, page: PageRequest): Work<Page<Thing>> => listNamed(port, table, app, page, opened),

      /**
       * Sets the fields that `changeOf` answers for the thing as it is stored. `settle` adds what follows from them. A change of
       * nothing locks and writes nothing, so that it leaves no audit row either.
       */
      *update(
        app: number | null,
        key: number,
        changeOf: (thing: Thing, now: EpochMs) => Partial<Thing>,
        settle: (after: Thing, before: Thing, now: EpochMs) => Thing = (after) => after,
      ): Work<Thing | undefined> {
        const named: { uid: string | null } = { uid: null }
        const isOwn = (row: Thing | undefined): row is Thing => row !== undefined && (row.app ?? null) === app
        return yield* conflictOnUid(port, named, () =>
          port.transaction(function* (sql) {
            const stored = yield* sql.first(table.byKey, { key })
            if (!isOwn(stored)) return undefined
            const known = opened(stored)
            if (isSame(merged(known, changeOf(known, yield* sql.now())), known)) return known
            // Read again behind the lock, so that a change made meanwhile by another caller is not undone.
            const row = yield* sql.first(table.locked, { key })
            if (!isOwn(row)) return undefined
            const [before, now] = [opened(row), yield* sql.now()]
            const changed = { ...merged(before, changeOf(before, now)), updatedAt: Math.max(now, before.updatedAt) }
            const after = settle(changed, before, now)
            named.uid = after.uid ?? null
            yield* sql.run(table.update, { ...toValues(after, row), key, at: after.updatedAt })
            return after
          }),
        )
      },

      /** Answers whether there was one. */
      remove: (sql: Sql, app: number | null, key: number): Work<boolean> =>
        sql.any(table.remove, { ...(app !== null && { app }), key }),
    }
  }

  /** The thing with these fields set. Sealed records that are all set replace their damaged ones. */
  function merged(before: Thing, change: Partial<Thing>): Thing {
    const given = new Map(Object.entries(defined(change)))
    const { damaged, ...whole } = before
    const isMended = records.every(([field]) => given.has(field))
    // A column of several fields keeps those that do not change.
    for (const column of columnsOfSeveral(noun)) {
      const parts = given.get(column)
      if (parts !== undefined) given.set(column, { ...(before[column as keyof Thing] as object), ...(parts as object) })
    }
    return { ...whole, ...(damaged && !isMended && { damaged }), ...Object.fromEntries(given) } as Thing
  }

  return { table, columns, shape, on }
}

/** A new thing without the parts that the store gives it. */
type Made<Thing> = Omit<Thing, 'key' | 'id' | 'app' | 'damaged' | 'createdAt' | 'updatedAt'>

/** The place of a sealed record. The key is no endpoint's, and neither is the name of the field. */
function placeOf(
  { name }: Declaration,
  { app = 0, key }: { readonly app?: number; readonly key: number },
  field: string,
): SealedPlace {
  return { app, endpoint: key, field: `${field} of a ${name}` }
}

/** The table of a noun with sealed records, for sealing them all under another key. */
export function sealedTableOf(noun: Declaration) {
  const columns = sealedOf(noun).map(([name]) => name)
  const place = (row: { readonly app: number; readonly key: number }, column: string) => placeOf(noun, row, column)
  return { name: noun.table, start: { key: -1 }, columns, isJson: true, placeOf: place }
}
