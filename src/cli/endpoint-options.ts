import type { Command as Commander } from 'commander'
import { signatureProfiles } from '../domain/flow.ts'
import { nearest } from '../runtime/config.ts'
import { choice, count, duration, type Kind } from '../runtime/setting-kinds.ts'
import type { Item } from './client.ts'
import { jsonValue, option, pairsOf, repeated } from './command.ts'
import { CommandError, exitCode } from './exit.ts'
import { retryPolicy } from './retry.ts'

/**
 * One option of `sluice endpoint create` and `update`. A new field of an endpoint is a line in `endpointOptions`; the flag,
 * its help, the body of the request and `--unset` follow from it.
 */
interface EndpointOption {
  /** The flag with its value, such as `--rate <NUMBER>`; `list` may be repeated. */
  readonly flag: string
  readonly help: string
  /** The field of the API. */
  readonly field: string
  /** How the text is read; as it is by default. */
  readonly kind?: Kind<unknown> | 'list' | 'pairs'
  /** The value of the field for that of the option. */
  readonly toField?: (value: never) => unknown
  /** Whether the API has no null for it. */
  readonly fixed?: boolean
}

const day = 86_400_000
const seconds = (ms: number) => Math.floor(ms / 1000)
const circuit: Kind<unknown> = { ...jsonValue, parse: (raw) => (raw === 'off' ? raw : jsonValue.parse(raw)) }

const endpointOptions: readonly EndpointOption[] = [
  { flag: '--uid <UID>', field: 'uid', help: 'your own name for it, usable wherever its id is' },
  { flag: '--description <TEXT>', field: 'description', help: 'free text', fixed: true },
  {
    flag: '--event-type <TYPE>',
    field: 'eventTypes',
    help: 'deliver only this event type, such as video.trending or video.*; may be repeated',
    kind: 'list',
  },
  {
    flag: '--channel <CHANNEL>',
    field: 'channels',
    help: 'deliver only messages of this channel; may be repeated',
    kind: 'list',
  },
  { flag: '--rate <NUMBER>', field: 'throttleRate', help: 'attempts per period', kind: count(1, 1_000_000) },
  {
    flag: '--period <DURATION>',
    field: 'throttlePeriodSeconds',
    help: 'period of --rate (default: 1s)',
    kind: duration(1000, day),
    toField: seconds,
  },
  { flag: '--burst <NUMBER>', field: 'burst', help: 'attempts at once after a quiet time', kind: count(1, 1_000_000) },
  { flag: '--concurrency <NUMBER>', field: 'concurrency', help: 'attempts under way at once', kind: count(1, 10_000) },
  { flag: '--timeout <DURATION>', field: 'timeoutMs', help: 'limit of one attempt', kind: duration(100, 300_000) },
  {
    flag: '--method <METHOD>',
    field: 'method',
    help: 'POST, PUT or PATCH',
    kind: choice(['POST', 'PUT', 'PATCH']),
    fixed: true,
  },
  {
    flag: '--retry <POLICY>',
    field: 'retry',
    help: 'waits such as 5s,1m,1h; exponential:5s..1h,x12; none; or JSON (docs/retry.md)',
    kind: retryPolicy,
  },
  {
    flag: '--header <NAME=VALUE>',
    field: 'headers',
    help: 'a header of every delivery; may be repeated',
    kind: 'pairs',
  },
  { flag: '--metadata <NAME=VALUE>', field: 'metadata', help: 'metadata; may be repeated', kind: 'pairs', fixed: true },
  { flag: '--circuit <JSON>', field: 'circuit', help: 'when the circuit opens, as JSON, or off', kind: circuit },
  {
    flag: '--adaptive <SWITCH>',
    field: 'adaptive',
    help: 'on or off: slow down on a 429 without Retry-After',
    kind: choice(['on', 'off']),
    toField: (value: string) => value === 'on',
  },
  {
    flag: '--disable-after <DURATION>',
    field: 'disableAfterMs',
    help: 'disable it after failing this long; 0 = never disable',
    kind: duration(0, 365 * day),
  },
  { flag: '--max-waiting <NUMBER>', field: 'maxWaiting', help: 'deliveries that may wait', kind: count(1, 1e9) },
  {
    flag: '--overflow <POLICY>',
    field: 'overflow',
    help: 'policy when too many deliveries wait: refuse, drop_oldest or drop_new',
    kind: choice(['refuse', 'drop_oldest', 'drop_new']),
  },
  {
    flag: '--max-age <DURATION>',
    field: 'maxAgeSeconds',
    help: 'longest time a delivery may wait, tried or not',
    kind: duration(1000, 365 * day),
    toField: seconds,
  },
  {
    flag: '--while-disabled <POLICY>',
    field: 'whileDisabled',
    help: 'messages published while it is disabled: hold or drop',
    kind: choice(['hold', 'drop']),
  },
  {
    flag: '--order <ORDER>',
    field: 'order',
    help: 'ordering: none, fifo (one at a time, as accepted) or key (the same per ordering key)',
    kind: choice(['none', 'fifo', 'key']),
  },
  {
    flag: '--dead-head <POLICY>',
    field: 'deadHead',
    help: 'in an ordered lane, a delivery without attempts left: skip makes it a dead letter, block stops the others',
    kind: choice(['skip', 'block']),
  },
  {
    flag: '--coalesce <DURATION>',
    field: 'coalesce',
    help: 'deliver only the newest of a kind within this time; --unset coalesce turns it off',
    kind: duration(2000, day),
  },
  {
    flag: '--filter <CONDITION>',
    field: 'filter',
    help: "deliver only messages that meet this CEL condition: 'payload.views > 1000'",
  },
  {
    flag: '--shape <JSON>',
    field: 'shape',
    help: 'fields of the payload that it gets: keep, drop, rename, pseudonymize',
    kind: jsonValue,
  },
  { flag: '--region <NAME>', field: 'region', help: 'region whose secret makes its pseudonyms' },
  {
    flag: '--signature <PROFILE>',
    field: 'signature',
    help: `signature profile: ${signatureProfiles.join(', ')}`,
    kind: choice(signatureProfiles),
  },
]

/** The name of an option: `event-type` of `--event-type <TYPE>`. */
function nameOf({ flag }: EndpointOption): string {
  return flag.slice('--'.length).split(' ')[0] ?? ''
}

/** The name under which commander keeps its value. */
function keyOf(each: EndpointOption): string {
  return nameOf(each).replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase())
}

/** Adds the options for the fields of an endpoint. */
export function withFields(command: Commander): Commander {
  for (const { flag, help, kind } of endpointOptions) {
    if (kind === undefined) command.option(flag, help)
    else command.addOption(typeof kind === 'string' ? repeated(flag, help) : option(flag, help, kind))
  }
  return command
    .option('--coalesce-key <POINTER>', 'deliveries with the same value there are of one kind, such as /video/id')
    .option('--disable', 'stop delivering')
    .option('--enable', 'deliver again')
}

/** The fields of the API that the options set. */
export function fieldsOf(options: Readonly<Record<string, unknown>>): Item {
  const set = endpointOptions.map((each) => {
    const value = options[keyOf(each)]
    const { field, kind, toField = (same: unknown) => same } = each
    return [field, value === undefined ? undefined : kind === 'pairs' ? pairsOf(value) : toField(value as never)]
  })
  const fields = Object.fromEntries(set)
  const { coalesceKey, disable, enable } = options
  if (coalesceKey !== undefined && fields.coalesce === undefined) {
    throw new CommandError('--coalesce-key needs --coalesce beside it, with for how long.', exitCode.misused)
  }
  const coalesce = fields.coalesce === undefined ? undefined : { windowMs: fields.coalesce, key: coalesceKey }
  return { ...fields, coalesce, disabled: disable === true ? true : enable === true ? false : undefined }
}

/** The field of the API that goes back to its default by `--unset`, named by its option or by itself. */
export function unsetField(name: string): string {
  const unsettable = endpointOptions.filter(({ fixed }) => fixed !== true)
  const found = unsettable.find((each) => nameOf(each) === name) ?? unsettable.find(({ field }) => field === name)
  if (found !== undefined) return found.field
  const names = unsettable.map(nameOf)
  const meant = nearest(name, [...names, ...unsettable.map(({ field }) => field)])
  const hint = meant === undefined ? `What can be: ${names.join(', ')}.` : `Did you mean ${meant}?`
  throw new CommandError(`${JSON.stringify(name)} cannot be unset. ${hint}`, exitCode.misused)
}
