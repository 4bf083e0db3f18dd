import type { EpochMs } from '../domain/clock.ts'
import type { Field, Typed } from '../domain/field.ts'
import type { Prefix } from '../domain/ids.ts'

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
  readonly prefix?: Prefix
  /** In the order in which they are stored and shown. */
  readonly fields: Readonly<Record<string, NounField>>
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
  /** It is stored sealed, and is an object. */
  readonly sealed?: true
  /** Answers do not have it, or have it in another form. */
  readonly hidden?: true
  /** The description in answers, where it is another one. */
  readonly shown?: string
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
type Stored<F extends NounField> = F extends Required | { readonly fallback: unknown } ? Typed<F> : Typed<F> | null
/** A value in a request. */
type Given<F extends NounField> = F extends Required | { readonly noNull: true } ? Typed<F> : Typed<F> | null

/** All fields of a new thing. */
export type New<N extends Declaration> = { readonly [Name in NameOf<N>]: Stored<FieldsOf<N>[Name]> }

/** The fields that a change sets. */
export type Change<N extends Declaration> = Partial<Omit<New<N>, Marked<N, Fixed>>>

/** A thing as it is stored. */
export type Thing<N extends Declaration> = (N extends { readonly prefix: Prefix } ? Owned : unknown) & New<N> & Dated

interface Owned {
  readonly key: number
  readonly id: string
  /** The key of its application. */
  readonly app: number
}

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

/** All fields of a thing that a request makes. */
export function toNew<N extends Declaration>(noun: N, input: Input<N>): New<N> {
  return { ...defaultsOf(noun), ...given(noun, input) } as New<N>
}

/** The fields that a request changes. */
export function toChange<N extends Declaration>(noun: N, input: Patch<N>): Change<N> {
  return given(noun, input) as Change<N>
}

/** The fields that replacing a thing sets: all but those that stay. */
export function toReplacement<N extends Declaration>(noun: N, input: Input<N>): Change<N> {
  const stay = entriesOf(noun).flatMap(([name, { stays }]) => (stays === true ? [name] : []))
  const others = Object.entries(defaultsOf(noun)).filter(([name]) => !stay.includes(name))
  return { ...Object.fromEntries(others), ...given(noun, input) } as Change<N>
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
