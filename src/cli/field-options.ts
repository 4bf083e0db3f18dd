import { type Command as Commander, Option } from 'commander'
import { type Field, queryName } from '../domain/field.ts'
import { nearest, span } from '../domain/phrases.ts'
import { choice, count, duration, type Kind } from '../runtime/setting-kinds.ts'
import type { Item, Query } from './client.ts'
import { instantForm, instantText, option, pairsOf, repeated, type Session } from './command.ts'
import { CommandError, exitCode } from './exit.ts'
import { text } from './table.ts'

/** Fields by their names in the API, such as `endpointFields`. */
export type Fields = Readonly<Record<string, Field>>
/** How the flags of fields that are objects are read, by the names of the fields. */
export type Readers = Readonly<Record<string, Kind<unknown>>>

/** Adds the flag of every field that has one. */
export function addFields(command: Commander, fields: Fields, readers: Readers = {}): Commander {
  for (const [name, field] of Object.entries(fields)) {
    if (field.flag !== undefined) command.addOption(optionOf(field.flag, field, readers[name]))
  }
  return command
}

function optionOf(flag: string, field: Field, reader: Kind<unknown> | undefined): Option {
  const { kind } = field
  const help = helpOf(field)
  if (reader !== undefined) return option(flag, help, reader)
  switch (kind.is) {
    case 'integer':
      return option(flag, help, count(kind.min, kind.max))
    case 'duration':
      return option(flag, help, duration(kind.min * unitMs[kind.unit], kind.max * unitMs[kind.unit]))
    case 'choice':
      return option(flag, help, choice(kind.words))
    case 'boolean':
      return takesValue(flag) ? option(flag, help, choice(['on', 'off'])) : new Option(flag, help)
    case 'list':
    case 'labels':
    case 'headers':
      return repeated(flag, `${help}; may be repeated`)
    case 'instant':
      return new Option(flag, `${help}, ${instantForm}`)
    default:
      return new Option(flag, help)
  }
}

const unitMs = { ms: 1, s: 1000 }

function takesValue(flag: string): boolean {
  return flag.includes('<')
}

/** The help of a field's flag: its description with no capital at its beginning, no marks and no full stop. */
export function helpOf({ help, description }: Pick<Field, 'help' | 'description'>): string {
  if (help !== undefined) return help
  const plain = withoutMarks(description).replace(/\.$/, '')
  return /^[A-Z][A-Z]/.test(plain) ? plain : plain.charAt(0).toLowerCase() + plain.slice(1)
}

/** Markdown without its marks for code and for bold text. */
export function withoutMarks(markdown: string): string {
  return markdown.replaceAll(/\*\*|`/g, '')
}

/** The name of a flag: `event-type` of `--event-type <TYPE>`. */
export function flagName(flag: string): string {
  return new Option(flag).name()
}

/** The values of the flags that were given, by the names of their fields in the API. */
export function fieldsOf({ options, world }: Session, fields: Fields): Item {
  const values = Object.entries(fields).flatMap(([name, { flag = '', kind }]) => {
    const given = flag === '' ? undefined : options[new Option(flag).attributeName()]
    if (given === undefined) return []
    if (kind.is === 'duration') return [[name, Math.floor(Number(given) / unitMs[kind.unit])]]
    if (kind.is === 'boolean') return [[name, takesValue(flag) ? given === 'on' : given]]
    if (kind.is === 'labels' || kind.is === 'headers') return [[name, pairsOf(given)]]
    return [[name, kind.is === 'instant' ? instantText(String(given), world.clock.now()) : given]]
  })
  return Object.fromEntries(values)
}

/** The same as a query of the API. */
export function queryOf(session: Session, fields: Fields): Query {
  const given = Object.entries(fieldsOf(session, fields) as Query)
  return Object.fromEntries(given.map(([name, value]) => [queryName(name), value]))
}

/** The field of the API that goes back to its default by `--unset`, named by its flag or by itself. */
export function unsetField(
  name: string,
  fields: Readonly<Record<string, { readonly flag?: string; readonly noNull?: true; readonly description?: string }>>,
): string {
  const unsettable = Object.entries(fields).flatMap(([field, { flag, noNull }]) =>
    flag === undefined || noNull === true ? [] : [{ field, flag: flagName(flag) }],
  )
  const found = unsettable.find(({ flag }) => flag === name) ?? unsettable.find(({ field }) => field === name)
  if (found !== undefined) return found.field
  const names = unsettable.map(({ flag }) => flag)
  const meant = nearest(name, [...names, ...unsettable.map(({ field }) => field)])
  const hint = meant === undefined ? `Options that can be: ${names.join(', ')}.` : `Did you mean ${meant}?`
  throw new CommandError(`${JSON.stringify(name)} cannot be unset. ${hint}`, exitCode.misused)
}

/**
 * The fields of an item that have a flag and are not at their fallback, as lines for a terminal. A field with a reader is
 * shown in the form that its flag takes.
 */
export function fieldFacts(
  item: Item,
  fields: Readonly<Record<string, Field & { readonly fallback?: unknown }>>,
  readers: Readers = {},
): [string, string][] {
  return Object.entries(fields).flatMap(([name, { flag, kind, fallback }]) => {
    const value = item[name]
    if (flag === undefined || value == null || JSON.stringify(value) === JSON.stringify(fallback)) return []
    return [[flagName(flag).replaceAll('-', ' '), readers[name]?.show(value) ?? shown(value, kind)]]
  })
}

function shown(value: unknown, kind: Field['kind']): string {
  if (kind.is === 'duration') return span(Number(value) * unitMs[kind.unit])
  if (kind.is === 'boolean') return value === true ? 'on' : 'off'
  return text(value)
}
