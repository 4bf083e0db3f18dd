import type { Command as Commander } from 'commander'
import { signatureProfiles } from '../domain/flow.ts'
import { span } from '../domain/phrases.ts'
import { choice, count, duration, type Kind } from '../runtime/setting-kinds.ts'
import type { Item } from './client.ts'
import { CommandError, exitCode } from './outcome.ts'
import { jsonValue, option, type Session } from './remote.ts'
import { text } from './show.ts'

const day = 86_400_000

/** Adds the options for how an endpoint is treated beyond its rate. */
export function withFlow(command: Commander): Commander {
  return command
    .addOption(option('--circuit <JSON>', 'when the circuit opens, as the API takes it, or off', circuitValue))
    .addOption(
      option('--adaptive <SWITCH>', 'on or off: slow down on a 429 without Retry-After', choice(['on', 'off'])),
    )
    .addOption(
      option('--disable-after <DURATION>', 'disable it after failing for so long; 0 for never', duration(0, 365 * day)),
    )
    .addOption(option('--max-waiting <NUMBER>', 'deliveries that may wait for it', count(1, 1_000_000_000)))
    .addOption(
      option(
        '--overflow <POLICY>',
        'what gives way when too many wait: refuse, drop_oldest or drop_new',
        choice(['refuse', 'drop_oldest', 'drop_new']),
      ),
    )
    .addOption(option('--max-age <DURATION>', 'how long a delivery may wait, tried or not', duration(1000, 365 * day)))
    .addOption(
      option('--while-disabled <POLICY>', 'what is published meanwhile: hold or drop', choice(['hold', 'drop'])),
    )
    .addOption(
      option(
        '--order <ORDER>',
        'in which order: none, fifo (one at a time, as accepted) or key (so for each ordering key)',
        choice(['none', 'fifo', 'key']),
      ),
    )
    .addOption(
      option(
        '--dead-head <POLICY>',
        'in order, what used up its attempts: skip it to the dead letters, or block the others',
        choice(['skip', 'block']),
      ),
    )
    .addOption(
      option(
        '--coalesce <DURATION>',
        'deliver only the newest of what is alike within this time; --unset coalesce turns it off',
        duration(2000, day),
      ),
    )
    .option('--coalesce-key <POINTER>', 'alike is what has the same value there, such as /video/id')
    .option('--filter <CONDITION>', "deliver only what this is true of, in CEL: 'payload.views > 1000'")
    .addOption(option('--shape <JSON>', 'what it gets of a payload: keep, drop, rename, pseudonymize', jsonValue))
    .option('--region <NAME>', 'whose secret its pseudonyms are made with')
    .addOption(
      option('--signature <PROFILE>', `how it is signed: ${signatureProfiles.join(', ')}`, choice(signatureProfiles)),
    )
}

/** The fields of the API by the options that stand for them. */
export const unsettableFlow: Readonly<Record<string, string>> = {
  circuit: 'circuit',
  adaptive: 'adaptive',
  'disable-after': 'disableAfterMs',
  'max-waiting': 'maxWaiting',
  overflow: 'overflow',
  'max-age': 'maxAgeSeconds',
  'while-disabled': 'whileDisabled',
  order: 'order',
  'dead-head': 'deadHead',
  coalesce: 'coalesce',
  filter: 'filter',
  shape: 'shape',
  region: 'region',
  signature: 'signature',
}

/** The same as fields of the API. */
export function flowOf({ options }: Session): Item {
  const { coalesce, coalesceKey, circuit, adaptive, disableAfter, maxWaiting, overflow, whileDisabled } = options
  const { order, deadHead, filter, shape, region, signature } = options
  const maxAge = options.maxAge as number | undefined
  if (coalesceKey !== undefined && coalesce === undefined) {
    throw new CommandError('--coalesce-key needs --coalesce beside it, with for how long.', exitCode.misused)
  }
  return {
    circuit,
    adaptive: adaptive === undefined ? undefined : adaptive === 'on',
    disableAfterMs: disableAfter,
    maxWaiting,
    overflow,
    maxAgeSeconds: maxAge === undefined ? undefined : Math.floor(maxAge / 1000),
    whileDisabled,
    order,
    deadHead,
    coalesce: coalesce === undefined ? undefined : { windowMs: coalesce, key: coalesceKey },
    filter,
    shape,
    region,
    signature,
  }
}

/** What an endpoint wants beyond its rate, for people; what is as by default is left out. */
export function flowFacts(item: Item): [string, string | undefined][] {
  const { coalesce, circuit, adaptive, disableAfterMs, maxWaiting, overflow, maxAgeSeconds, whileDisabled } = item
  return [
    ['circuit', circuit == null ? undefined : text(circuit)],
    ['adaptive', adaptive === false ? 'off' : undefined],
    ['disabled after', disableAfterMs == null ? undefined : disableText(disableAfterMs)],
    ['may wait', maxWaiting == null ? undefined : text(maxWaiting)],
    ['overflow', overflow == null || overflow === 'refuse' ? undefined : text(overflow)],
    ['max age', maxAgeSeconds == null ? undefined : span(Number(maxAgeSeconds) * 1000)],
    ['while disabled', whileDisabled === 'drop' ? 'what is published is dropped' : undefined],
    ['order', item.order == null || item.order === 'none' ? undefined : orderText(item)],
    ['coalesce', coalesce == null ? undefined : coalesceText(coalesce as Item)],
    ['filter', item.filter == null ? undefined : text(item.filter)],
    ['shape', item.shape == null ? undefined : text(item.shape)],
    ['region', item.region == null ? undefined : text(item.region)],
    ['signature', item.signature == null || item.signature === 'standard' ? undefined : text(item.signature)],
  ]
}

function orderText({ order, deadHead }: Item): string {
  const kind = order === 'fifo' ? 'one at a time, as accepted' : 'as accepted, for each ordering key'
  return deadHead === 'block' ? `${kind}; what used up its attempts blocks` : kind
}

function disableText(ms: unknown): string {
  return ms === 0 ? 'never' : `failing for ${span(Number(ms))}`
}

const circuitValue: Kind<unknown> = {
  ...jsonValue,
  parse: (raw) => (raw === 'off' ? raw : jsonValue.parse(raw)),
}

function coalesceText({ windowMs, key }: Item): string {
  const kind = key == null ? 'event type' : `event type and ${text(key)}`
  return `the newest of ${span(Number(windowMs))} by ${kind}`
}
