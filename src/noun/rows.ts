import type { Form } from '../domain/field.ts'
import { columnsOf, type Shape, snakeCase, type Values, valuesOf } from '../store/sql/statement.ts'
import { type Declaration, entriesOf, type New } from './noun.ts'

/** How the fields of a noun are stored: a column each, in the order of the declaration. */
export interface Row<N extends Declaration, Thing> {
  /** The columns of the fields that callers set. */
  readonly settable: readonly string[]
  /** All columns, named as the fields of a thing. */
  readonly columns: string
  readonly shape: Shape<Thing>
  /** The values of those columns. */
  valuesOf(input: New<N>): Values
}

/** The row of a noun with these other columns behind its fields: `createdAt` for `created_at`. */
export function rowOf<N extends Declaration, Thing>(noun: N, ...others: (keyof Thing & string)[]): Row<N, Thing> {
  const fields = snakeCase(...entriesOf(noun).map(([name]) => name as keyof New<N> & string))
  const all = { ...fields, ...snakeCase(...others) } as Readonly<Record<keyof Thing & string, string>>
  const inForm = (...forms: Form['is'][]) =>
    entriesOf(noun).flatMap(([name, { kind, sealed }]) =>
      sealed !== true && forms.includes(kind.is) ? [name as keyof Thing & string] : [],
    )
  return {
    settable: Object.values(fields),
    columns: columnsOf<Thing>(all),
    shape: { json: inForm('list', 'labels', 'headers', 'object'), flags: inForm('boolean') },
    valuesOf: (input) => valuesOf<New<N>>(input, fields),
  }
}
