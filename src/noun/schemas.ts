import { type TOptional, type TSchema, type TUnsafe, Type } from 'typebox'
import type { EpochMs } from '../domain/clock.ts'
import type { SimpleForm } from '../domain/field.ts'
import { createdAt, described, iso, nullable, schemaOf, shown, updatedAt } from '../operations/fields.ts'
import {
  type Declaration,
  entriesOf,
  type Input,
  type Marked,
  type New,
  type NounField,
  type Patch,
  type Stored,
  valuesIn,
} from './noun.ts'

/** The schemas of the fields that are objects, in a request and, where it is not the same without bounds, in an answer. */
type ObjectSchemas<N extends Declaration> = Readonly<
  Record<Marked<N, { readonly kind: { readonly is: 'object' } }>, ObjectSchema>
>
interface ObjectSchema {
  readonly given: TSchema
  readonly shown?: TSchema
}

/** Schemas of the values of an object. */
type Properties<Values> = {
  readonly [Name in keyof Values]-?: object extends Pick<Values, Name>
    ? TOptional<TUnsafe<Exclude<Values[Name], undefined>>>
    : TUnsafe<Values[Name]>
}
type Fixed = { readonly fixed: true }
type Hidden = { readonly hidden: true }

/** The properties of a noun's schemas: a noun adds its own beside them. */
interface Schemas<N extends Declaration> {
  /** Of a request that makes a thing. */
  readonly made: Properties<Input<N>>
  /** Of one that replaces it. */
  readonly replaced: Omit<Properties<Input<N>>, Marked<N, Fixed>>
  /** Of one that changes it: none is required. */
  readonly changed: Properties<Patch<N>>
  /** Of an answer. */
  readonly shown: Properties<Visible<N> & Dates>
}

/** The fields of a thing that answers show, by their names. */
type Visible<N extends Declaration> = {
  readonly [Name in Exclude<keyof N['fields'] & string, Marked<N, Hidden>>]: Stored<N['fields'][Name]>
}

interface Dates {
  readonly createdAt: string
  readonly updatedAt: string
}

/** Makes the schemas of a noun's fields. Fields that are objects have theirs beside the code that reads them. */
export function schemasOf<N extends Declaration>(
  noun: N,
  ...[objects = {} as ObjectSchemas<N>]: object extends ObjectSchemas<N> ? [] : [objects: ObjectSchemas<N>]
): Schemas<N> {
  const given = new Map<string, ObjectSchema>(Object.entries(objects))
  const fields = entriesOf(noun).map(([name, field]) => {
    const object = given.get(name)
    const schema = described(object?.given ?? schemaOf(field.kind as SimpleForm), field.description)
    const answered = described(object?.shown ?? shown(schema), field.shown ?? field.description)
    return { name, field, schema, answered: hasNull(field) ? nullable(answered) : answered }
  })
  const changeable = fields.filter(({ field }) => field.fixed !== true)
  const visible = fields.filter(({ field }) => field.hidden !== true)
  const requested = (list: typeof fields) =>
    list.map(({ name, field, schema }) => [name, field.required === true ? schema : optional(field, schema)])
  return {
    made: Object.fromEntries(requested(fields)),
    replaced: Object.fromEntries(requested(changeable)),
    changed: Object.fromEntries(changeable.map(({ name, field, schema }) => [name, optional(field, schema)])),
    shown: { ...Object.fromEntries(visible.map(({ name, answered }) => [name, answered])), createdAt, updatedAt },
  } as unknown as Schemas<N>
}

function optional({ required, noNull }: NounField, schema: TSchema): TSchema {
  return Type.Optional(required === true || noNull === true ? schema : nullable(schema))
}

/** Whether a stored value may be null. */
function hasNull({ required, fallback = null }: NounField): boolean {
  return required !== true && fallback === null
}

/** The fields of a thing as an answer shows them. */
export function toShown<N extends Declaration>(noun: N, thing: New<N> & Stamps): Visible<N> & Dates {
  const { createdAt, updatedAt } = thing
  const values = valuesIn(noun, thing)
  const shown = entriesOf(noun).flatMap(([name, { hidden }]) => (hidden === true ? [] : [[name, values.get(name)]]))
  return { ...Object.fromEntries(shown), createdAt: iso(createdAt), updatedAt: iso(updatedAt) } as Visible<N> & Dates
}

interface Stamps {
  readonly createdAt: EpochMs
  readonly updatedAt: EpochMs
}
