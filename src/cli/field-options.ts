import { type Command as Commander, Option } from 'commander'
import { type Field, queryName } from '../domain/field.ts'
import { nearest, span } from '../domain/phrases.ts'
import { defaultJitterMs, defaultRetryPolicy, jitters, type RetryPolicy, retryAfterRules } from '../domain/retry.ts'
import { choice, count, duration, type SettingKind, WrongValue } from '../runtime/setting-kinds.ts'
import type { Item, Query } from './client.ts'
import { instantForm, instantText, option, pairsOf, repeated, type Session } from './command.ts'
import { text } from './table.ts'
import { CommandError, exitCode } from './terminal.ts'

/** Fields by their names in the API, such as `endpointFields`. */
type FieldTable = Readonly<Record<string, Field>>
/** How the flags of fields that are objects are read, by the names of the fields. */
export type Readers = Readonly<Record<string, SettingKind<unknown>>>

/** Adds the flag of every field that has one, and the flag that negates it. */
export function addFields(command: Commander, fields: FieldTable, readers: Readers = {}): Commander {
  for (const [name, field] of Object.entries(fields)) {
    if (field.flag === undefined) continue
    command.addOption(optionOf(field.flag, field, readers[name]))
    if (field.negated !== undefined) command.option(`--no-${flagName(field.flag)}`, field.negated)
  }
  return command
}

/** Some of the fields, in this order. */
export function picked<F extends FieldTable>(fields: F, ...names: (keyof F & string)[]): FieldTable {
  return Object.fromEntries(names.flatMap((name) => (fields[name] === undefined ? [] : [[name, fields[name]]])))
}

function optionOf(flag: string, field: Field, reader: SettingKind<unknown> | undefined): Option {
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
export function fieldsOf({ options, world }: Session, fields: FieldTable): Item {
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
export function queryOf(session: Session, fields: FieldTable): Query {
  return asQuery(fieldsOf(session, fields) as Query)
}

/** Fields of the API by their names in a query. */
export function asQuery(fields: Query): Query {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [queryName(name), value]))
}

/** The flag for fields that go back to their defaults. */
export function unsetOption(examples: string): Option {
  return repeated('--unset <OPTION>', `option that goes back to its default, such as ${examples}; may be repeated`)
}

/** Fields that `--unset` may name: each with a flag, unless null is no value of the field. */
type Unsettable = Readonly<
  Record<string, { flag?: string | undefined; noNull?: true | undefined; description?: string | undefined }>
>

/** The fields of the API that `--unset` names, each by its flag or by itself. Null is their default. */
export function unsetFields({ options }: Session, fields: Unsettable): Record<string, null> {
  const { unset = [] } = options as { unset?: readonly string[] }
  return Object.fromEntries(unset.map((name) => [unsetField(name, fields), null]))
}

function unsetField(name: string, fields: Unsettable): string {
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

const day = 86_400_000
const wait = duration(0, 7 * day)
const growth = 2
const expected =
  'waits such as 5s,1m,1h; exponential:5s..1h,x12 for waits that double from 5s up to 1h, 12 attempts in all; none for one attempt; each with jitter=full, jitter=added, jitter-span=30s, max-age=3d or retry-after=later behind it; or JSON in the form of the API'

/** A policy in the API's form. The server fills in absent fields. */
type PolicyIn = Pick<RetryPolicy, 'waits'> & Partial<RetryPolicy>

/** The words behind the waits: `jitter=full`. */
const words = {
  jitter: choice(jitters),
  'jitter-span': duration(1, day / 24),
  'max-age': duration(1, 30 * day),
  'retry-after': choice(retryAfterRules),
}
type Word = keyof typeof words
const fieldOf = {
  jitter: 'jitter',
  'jitter-span': 'jitterMs',
  'max-age': 'maxAgeMs',
  'retry-after': 'retryAfter',
} as const

/** The flag form of a retry policy. `parse` reads every text that `show` prints; the server fills in absent fields. */
export const retryPolicy: SettingKind<object> = {
  placeholder: 'POLICY',
  parse(raw) {
    const text = String(raw).trim()
    if (text.startsWith('{')) return parseJson(text)
    const parts = text.split(',').map((part) => part.trim())
    const first = parts.findIndex((part) => part.includes('='))
    const waits = first === -1 ? parts : parts.slice(0, first)
    const options = first === -1 ? [] : parts.slice(first)
    return { waits: parseWaits(waits, takeFactor(options)), ...Object.assign({}, ...options.map(parseOption)) }
  },
  show: (value) => showPolicy(value as PolicyIn),
}

function parseWaits(parts: readonly string[], factor: number | undefined): RetryPolicy['waits'] {
  const match = /^exponential:([^.,]+)\.\.([^.,]+),x(\d{1,3})$/.exec(parts.join(','))
  if (match !== null) return exponential(match, factor ?? growth)
  if (factor !== undefined) throw new WrongValue(`${expected} (factor= belongs to exponential:)`)
  return { kind: 'list', ms: parts.length === 1 && parts[0] === 'none' ? [] : parts.map(waitMs) }
}

function exponential([, base = '', cap = '', attempts = '']: RegExpExecArray, factor: number): RetryPolicy['waits'] {
  const [baseMs, capMs, maxAttempts] = [waitMs(base), waitMs(cap), Number(attempts)]
  if (baseMs > capMs) throw new WrongValue(`${expected} (${base} is longer than ${cap})`)
  return { kind: 'exponential', baseMs, factor, capMs, maxAttempts }
}

/** Takes `factor=3` out of the options, if it is among them. */
function takeFactor(options: string[]): number | undefined {
  const at = options.findIndex((part) => part.startsWith('factor='))
  if (at === -1) return undefined
  const [part = ''] = options.splice(at, 1)
  const factor = Number(part.slice('factor='.length) || Number.NaN)
  if (!(factor >= 1 && factor <= 100)) throw new WrongValue(`${expected} (${part}: a factor is from 1 to 100)`)
  return factor
}

function parseOption(part: string): Partial<RetryPolicy> {
  const [name = '', value] = part.split('=', 2)
  if (!Object.hasOwn(words, name)) throw new WrongValue(`${expected} (${JSON.stringify(part)} is none of these)`)
  return { [fieldOf[name as Word]]: explained(part, () => words[name as Word].parse(value)) }
}

function waitMs(text: string): number {
  return explained(JSON.stringify(text), () => wait.parse(text))
}

/** Reads a part of a policy. A part that is wrong is named, and so are the forms of the whole. */
function explained<T>(part: string, parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    if (!(error instanceof WrongValue)) throw error
    throw new WrongValue(`${expected} (${part} is not ${error.message.replace(/such as .* from/, 'from')})`)
  }
}

function parseJson(text: string): object {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) throw new WrongValue(`${expected} (${error.message})`)
    throw error
  }
}

const usual: Partial<RetryPolicy> = { ...defaultRetryPolicy, jitterMs: defaultJitterMs }

function showPolicy(policy: PolicyIn): string {
  const options = Object.entries(fieldOf).flatMap(([name, field]) => {
    const value = policy[field]
    if (value == null || value === usual[field]) return []
    return [`${name}=${(words[name as Word] as SettingKind<unknown>).show(value)}`]
  })
  return [...showWaits(policy.waits), ...options].join(',')
}

function showWaits(waits: RetryPolicy['waits']): string[] {
  if (waits.kind === 'list') return waits.ms.length === 0 ? ['none'] : waits.ms.map(wait.show)
  const { baseMs, factor, capMs, maxAttempts } = waits
  // A base above the cap waits for the cap.
  const range = `exponential:${wait.show(Math.min(baseMs, capMs))}..${wait.show(capMs)}`
  return [range, `x${maxAttempts}`, ...(factor === growth ? [] : [`factor=${factor}`])]
}
