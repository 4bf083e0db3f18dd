import type { EpochMs } from '../domain/clock.ts'
import type { Field, Typed } from '../domain/field.ts'

/**
 * A noun is declared once, as data: `features/<noun>/noun.ts`. Its types follow here, its columns in rows.ts, its schemas and
 * answers in schemas.ts, its flags in `cli/field-options.ts`, its forms in the pages. This file is read by all of them, so it
 * knows the domain alone.
 */
export interface Declaration {
  /** The noun in a sentence, such as `event type`. */
  readonly name: string
  readonly table: string
  /** The beginning of its ids. A noun without one is known by a name. */
  readonly prefix?: string
  /** Its things belong to applications. Without an owner they belong to the server. */
  readonly owner?: 'application'
  /** For the reference: a uid, and queries and bodies of its operations, by the last word of their ids. */
  readonly examples?: {
    readonly uid: string
    readonly of: Readonly<Record<string, { readonly query?: object; readonly body?: object }>>
  }
  /** How many things of it, by their plural, an owner may have, and the setting that changes the number. */
  readonly limit?: { readonly most: number; readonly things: string; readonly setting?: string }
  /** In the order in which they are stored and shown. */
  readonly fields: Readonly<Record<string, NounField>>
  /** Values that Sluice keeps of a thing beside its fields, in columns of their own. */
  readonly state?: Readonly<Record<string, Kept>>
}

/** A value that no request sets under its name. `T` exists for the compiler alone. */
export interface Kept<T = unknown> {
  readonly as: 'value' | 'flag' | 'json' | 'sealed'
  /** The value of a sealed record that does not open. */
  readonly empty?: T
  readonly typed?: T
}

/** A number, a text or bytes; null where the type says so. */
export function value<T extends number | string | Uint8Array | null>(): Kept<T> {
  return { as: 'value' }
}

export const flag: Kept<boolean> = { as: 'flag' }

export function json<T extends object>(): Kept<T> {
  return { as: 'json' }
}

/** JSON that is stored sealed. */
export function sealed<T extends object>(empty: T): Kept<T> {
  return { as: 'sealed', empty }
}

/** A field of a noun that callers set, under its name in the API. */
export interface NounField extends Field {
  /** A thing cannot be made without it, and it has no null. */
  readonly required?: true
  /** The value of a thing that sets none, to which null goes back; null when absent. */
  readonly fallback?: unknown
  /** A request that has a null instead of a value is refused. */
  readonly noNull?: true
  /** It is set when the thing is made, and never changed. */
  readonly fixed?: true
  /** Replacing a thing without it leaves it as it is. */
  readonly stays?: true
  /** The name of its column, where it is another one than its own in snake case. */
  readonly column?: string
  /** The column of JSON that has it, beside others; a thing has it there, too. It has a column of its own when absent. */
  readonly in?: string
  /** It is stored sealed, and is an object. */
  readonly sealed?: true
  /** Answers do not have it, or have it in another form. */
  readonly hidden?: true
  /** The description in answers, where it is another one. */
  readonly shown?: string
}

/** Fields that share a column of JSON. */
export function within<const Column extends string, F extends Readonly<Record<string, NounField>>>(
  column: Column,
  fields: F,
): { readonly [Name in keyof F]: F[Name] & { readonly in: Column } } {
  const all = Object.entries(fields).map(([name, field]) => [name, { ...field, in: column }])
  return Object.fromEntries(all)
}

/** Declares a noun, and keeps the types of its fields. */
export function noun<const N extends Declaration>(declaration: N): N {
  return declaration
}

type FieldsOf<N extends Declaration> = N['fields']
type NameOf<N extends Declaration> = keyof FieldsOf<N> & string
/** The names of the fields that are marked like this. */
export type Marked<N extends Declaration, Mark> = {
  [Name in NameOf<N>]: FieldsOf<N>[Name] extends Mark ? Name : never
}[NameOf<N>]

interface Required {
  readonly required: true
}
interface Fixed {
  readonly fixed: true
}

/** A value as it is stored: null only without a fallback. */
export type Stored<F extends NounField> = F extends Required | { readonly fallback: unknown }
  ? Typed<F>
  : Typed<F> | null
/** A value in a request. */
type Given<F extends NounField> = F extends Required | { readonly noNull: true } ? Typed<F> : Typed<F> | null

/** The columns that have several fields. */
type ColumnOf<N extends Declaration> = {
  [Name in NameOf<N>]: FieldsOf<N>[Name] extends { readonly in: infer Column extends string } ? Column : never
}[NameOf<N>]
type Inside = { readonly in: string }
type Values<N extends Declaration, Name extends NameOf<N>> = { readonly [Own in Name]: Stored<FieldsOf<N>[Own]> }

/** All fields of a new thing. */
export type New<N extends Declaration> = Values<N, Exclude<NameOf<N>, Marked<N, Inside>>> & {
  readonly [Column in ColumnOf<N>]: Values<N, Marked<N, { readonly in: Column }>>
}

/** The fields that a change sets. */
export type Change<N extends Declaration> = Partial<
  Values<N, Exclude<NameOf<N>, Marked<N, Inside> | Marked<N, Fixed>>>
> & { readonly [Column in ColumnOf<N>]?: Partial<Values<N, Marked<N, { readonly in: Column }>>> }

/** A thing as it is stored. */
export type Thing<N extends Declaration> = Named<N> & New<N> & State<N> & Dated & Damaged<N>

type Named<N extends Declaration> = (N extends { readonly prefix: string } ? Keyed : unknown) &
  (N extends { readonly owner: 'application' } ? Owned : unknown)

interface Keyed {
  readonly key: number
  readonly id: string
}

interface Owned {
  /** The key of its application. */
  readonly app: number
}

/** The values that Sluice keeps of a thing beside its fields. */
export type State<N extends Declaration> =
  N['state'] extends Readonly<Record<string, Kept>>
    ? { readonly [Name in keyof N['state']]: N['state'][Name] extends Kept<infer T> ? T : never }
    : unknown

type Damaged<N extends Declaration> = [SealedName<N>] extends [never] ? unknown : { readonly damaged?: true }

/** The names of the records that are stored sealed. */
export type SealedName<N extends Declaration> =
  | Marked<N, { readonly sealed: true }>
  | { [Name in keyof N['state']]: N['state'][Name] extends { as: 'sealed' } ? Name : never }[keyof N['state']]

interface Dated {
  readonly createdAt: EpochMs
  readonly updatedAt: EpochMs
}

/** The fields that a request to make a thing sets. */
export type Input<N extends Declaration> = {
  readonly [Name in Marked<N, Required>]: Given<FieldsOf<N>[Name]>
} & { readonly [Name in Exclude<NameOf<N>, Marked<N, Required>>]?: Given<FieldsOf<N>[Name]> }

/** The fields that a request to change a thing sets. */
export type Patch<N extends Declaration> = {
  readonly [Name in Exclude<NameOf<N>, Marked<N, Fixed>>]?: Given<FieldsOf<N>[Name]>
}

/** The fields by name. */
export function entriesOf(noun: Declaration): [string, NounField][] {
  return Object.entries(noun.fields)
}

/** The values that Sluice keeps beside the fields, by name. */
export function stateOf(noun: Declaration): [string, Kept][] {
  return Object.entries(noun.state ?? {})
}

/** The sealed records of a noun, each with its value when it does not open. */
export function sealedOf(noun: Declaration): [string, unknown][] {
  return [
    ...entriesOf(noun).flatMap(([name, { sealed, fallback = null }]) =>
      sealed === true ? [[name, fallback] as [string, unknown]] : [],
    ),
    ...stateOf(noun).flatMap(([name, { as, empty }]) => (as === 'sealed' ? [[name, empty] as [string, unknown]] : [])),
  ]
}

/** All fields of a thing that a request makes. */
export function toNew<N extends Declaration>(noun: N, input: Input<N>): New<N> {
  return placed(noun, { ...defaultsOf(noun), ...given(noun, input) }) as New<N>
}

/** The fields that a request changes. */
export function toChange<N extends Declaration>(noun: N, input: Patch<N>): Change<N> {
  return placed(noun, given(noun, input)) as Change<N>
}

/** The fields that replacing a thing sets: all but those that stay. */
export function toReplacement<N extends Declaration>(noun: N, input: Input<N>): Change<N> {
  const stay = entriesOf(noun).flatMap(([name, { stays }]) => (stays === true ? [name] : []))
  const others = Object.entries(defaultsOf(noun)).filter(([name]) => !stay.includes(name))
  return placed(noun, { ...Object.fromEntries(others), ...given(noun, input) }) as Change<N>
}

/** The values of fields, at their places in a thing. */
function placed(noun: Declaration, values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const own: Record<string, unknown> = {}
  const columns: Record<string, Record<string, unknown>> = {}
  for (const [name, value] of Object.entries(values)) {
    const column = noun.fields[name]?.in
    if (column === undefined) own[name] = value
    else columns[column] = { ...columns[column], [name]: value }
  }
  return { ...own, ...columns }
}

/** The values of a thing's fields, by their names. */
export function valuesIn(noun: Declaration, thing: object): Map<string, unknown> {
  const values = new Map<string, unknown>(Object.entries(thing))
  for (const [name, { in: column }] of entriesOf(noun)) {
    if (column !== undefined)
      values.set(name, (values.get(column) as Record<string, unknown> | undefined)?.[name] ?? null)
  }
  return values
}

function defaultsOf(noun: Declaration): Record<string, unknown> {
  return Object.fromEntries(entriesOf(noun).map(([name, { fallback = null }]) => [name, fallback]))
}

/** The values that a request has. Null is the fallback, and a list has each value once. */
function given(noun: Declaration, input: object): Record<string, unknown> {
  const values = new Map<string, unknown>(Object.entries(input))
  const named = entriesOf(noun).flatMap(([name, { fallback = null }]) => {
    const value = values.get(name)
    if (value === undefined) return []
    return [[name, value === null ? fallback : Array.isArray(value) ? [...new Set(value)] : value]]
  })
  return Object.fromEntries(named)
}
