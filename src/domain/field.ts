/**
 * The kinds of values that callers set. A kind names no library: schemas of the API, flags of the program and tables in
 * the docs are made from it. `T` is the type of the value and exists for the compiler alone.
 */
export type FieldKind<T = unknown, F extends Form = SimpleForm> = F & { readonly typed?: T }

export type SimpleForm =
  | { readonly is: 'text'; readonly min?: number; readonly max?: number; readonly pattern?: string }
  /** Letters, digits, `-`, `_` and `.`, such as a channel. */
  | { readonly is: 'name'; readonly max: number }
  /** A text on one line, which is not empty: the display name of a thing. */
  | { readonly is: 'display'; readonly max: number }
  /** A name that cannot be mistaken for an id with this prefix. */
  | { readonly is: 'uid'; readonly prefix: string }
  | { readonly is: 'integer'; readonly min: number; readonly max: number }
  /** A length of time. The API takes it in `unit`, flags as a duration such as `2h`. */
  | { readonly is: 'duration'; readonly unit: 'ms' | 's'; readonly min: number; readonly max: number }
  | { readonly is: 'choice'; readonly words: readonly string[] }
  | { readonly is: 'boolean' }
  | { readonly is: 'instant' }
  /** Of one value at least, unless it may be empty. A value that is given twice counts once, unless it is refused. */
  | {
      readonly is: 'list'
      readonly of: SimpleForm
      readonly max: number
      readonly empty?: true
      readonly unique?: true
    }
  /** Text by name. */
  | { readonly is: 'labels' }
  | { readonly is: 'headers' }

/** An object of its own: the API has a schema for it and the program a reader, under the name of the field. */
export interface ObjectForm {
  readonly is: 'object'
}

export type Form = SimpleForm | ObjectForm

/** A value that callers set. */
export interface Field {
  readonly kind: FieldKind<unknown, Form>
  /** The flag of the program, such as `--rate <NUMBER>`; none when it is absent. */
  readonly flag?: string
  /** One sentence or more, for the reference, the docs and, without `help`, the flag. */
  readonly description: string
  /** The help of the flag, where the flag differs from the field of the API. */
  readonly help?: string
  /** The help of the flag that begins with `--no-`, for a flag without a value. */
  readonly negated?: string
}

/** The name of a field in a query: `event_types` for `eventTypes`. */
export function queryName(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** The type of a field's values. */
export type Typed<F extends Field> = F['kind'] extends FieldKind<infer T, Form> ? T : never

export function text(min?: number, max?: number): FieldKind<string> {
  return { is: 'text', ...(min !== undefined && { min }), ...(max !== undefined && { max }) }
}

/** A text that matches a pattern. */
export function matching(pattern: string, max?: number): FieldKind<string> {
  return { is: 'text', pattern, ...(max !== undefined && { max }) }
}

export function display(max: number): FieldKind<string> {
  return { is: 'display', max }
}

export function name(max: number): FieldKind<string> {
  return { is: 'name', max }
}

export function uid(prefix: string): FieldKind<string> {
  return { is: 'uid', prefix }
}

export function integer(min: number, max: number): FieldKind<number> {
  return { is: 'integer', min, max }
}

export function milliseconds(min: number, max: number): FieldKind<number> {
  return { is: 'duration', unit: 'ms', min, max }
}

export function seconds(min: number, max: number): FieldKind<number> {
  return { is: 'duration', unit: 's', min, max }
}

export function choice<const Word extends string>(words: readonly Word[]): FieldKind<Word> {
  return { is: 'choice', words }
}

/** One value at least. A value that is given twice counts once. */
export function list(of: FieldKind<string>, max: number): FieldKind<readonly string[]> {
  return { is: 'list', of, max }
}

/** Any number of values, each once. */
export function set(of: FieldKind<string>, max: number): FieldKind<readonly string[]> {
  return { is: 'list', of, max, empty: true, unique: true }
}

export const boolean: FieldKind<boolean> = { is: 'boolean' }
export const instant: FieldKind<string> = { is: 'instant' }
export const labels: FieldKind<Readonly<Record<string, string>>> = { is: 'labels' }
export const headers: FieldKind<Readonly<Record<string, string>>> = { is: 'headers' }

export function object<T extends object | string>(): FieldKind<T, ObjectForm> {
  return { is: 'object' }
}

/** A change without its undefined fields. */
export function defined<T extends object>(change: T): Defined<T> {
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)) as Defined<T>
}

type Defined<T> = { [Field in keyof T]?: Exclude<T[Field], undefined> }

/** Whether two values are the same, field by field. Missing fields are undefined; the order of fields does not count. */
export function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (a instanceof Uint8Array || b instanceof Uint8Array) {
    return (
      a instanceof Uint8Array && b instanceof Uint8Array && a.length === b.length && a.every((byte, i) => byte === b[i])
    )
  }
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>]
  return [...new Set([...Object.keys(left), ...Object.keys(right)])].every((name) => isSame(left[name], right[name]))
}
