import type { EpochMs } from '../../domain/clock.ts'
import { boolean, choice, integer, text } from '../../domain/field.ts'
import { json, type New, noun, type State, type Thing, value } from '../../noun/noun.ts'
import { metadataField, uidField } from '../../noun/shared-fields.ts'
import { envelopeFields } from '../messages/fields.ts'

const { eventType, channels, tags, headers, endpoint } = envelopeFields

/** The policy for ticks that were missed because no process ran schedules. */
export const missedPolicies = ['skip', 'once', 'all'] as const

const digest = { cron: '0 7 * * 1-5', timezone: 'Europe/Berlin', eventType: 'digest.due', payload: { kind: 'daily' } }

/** A message that is published repeatedly, by a cron expression or after the deliveries of the last run. */
export const schedule = noun({
  name: 'schedule',
  table: 'schedule',
  prefix: 'sch',
  owner: 'application',
  examples: {
    uid: 'daily-digest',
    of: {
      list: { query: { limit: 50, next_runs: 3 } },
      create: { query: { next_runs: 3 }, body: { uid: 'daily-digest', ...digest } },
      preview: { query: { cron: digest.cron, timezone: digest.timezone } },
      update: { body: { uid: 'daily-digest', ...digest, missed: 'once' } },
      patch: { body: { cron: '30 6 * * 1-5' } },
    },
  },
  limit: { most: 1000, things: 'schedules', setting: 'maxSchedulesPerApp' },
  fields: {
    uid: uidField('sch'),
    cron: {
      kind: text(undefined, 256),
      required: true,
      flag: '--cron <EXPRESSION>',
      description:
        'Five fields: minute, hour, day of the month, month, day of the week; such as `30 7 * * MON-FRI`. Six fields begin with seconds. `@after 5m` runs five minutes after the last delivery of the run before has ended, `@after 0 * * * *` at the first such tick after it.',
      help: 'new expression; runs start from now',
    },
    timezone: {
      kind: text(1, 64),
      fallback: 'UTC',
      noNull: true,
      flag: '--timezone <ZONE>',
      description: 'IANA time zone of the expression, such as `Europe/Berlin`; `UTC` by default.',
      help: 'IANA time zone such as Europe/Berlin (default: UTC)',
    },
    eventType: { ...eventType, flag: '--event-type <TYPE>', help: 'new event type of its messages' },
    channels: { ...channels, flag: '--channel <CHANNEL>', help: 'channel of its messages' },
    tags: { ...tags, flag: '--tag <TAG>', help: 'tag of its messages' },
    endpoint: { ...endpoint, flag: '--endpoint <ENDPOINT>', help: 'the one endpoint that gets its messages' },
    // Answers have them without secrets.
    headers: { ...headers, sealed: true, hidden: true, flag: '--header <NAME=VALUE>', help: 'header of its messages' },
    contentType: {
      kind: text(undefined, 255),
      fallback: 'application/json',
      noNull: true,
      flag: '--content-type <TYPE>',
      description:
        'Content type of every message. A body without one gets `application/json`, or `application/octet-stream` with `bodyBase64`.',
      help: 'content type of its messages (default: application/json)',
    },
    missed: {
      kind: choice(missedPolicies),
      fallback: 'once',
      noNull: true,
      flag: '--missed <POLICY>',
      description:
        'Policy for runs that were missed by more than five minutes: `skip` drops them, `once` runs the newest, `all` runs each, up to `missedLimit`.',
      help: 'policy for missed runs: skip, once or all',
    },
    missedLimit: {
      kind: integer(1, 100),
      fallback: 10,
      noNull: true,
      flag: '--missed-limit <NUMBER>',
      description: 'Largest number of missed runs to make up for, the newest; 10 by default.',
      help: 'with all: maximum number of missed runs to make up for',
    },
    paused: {
      kind: boolean,
      fallback: false,
      noNull: true,
      stays: true,
      flag: '--paused',
      description: 'Whether the schedule is paused.',
      help: 'paused: it runs only by hand',
    },
    metadata: metadataField,
  },
  state: {
    /** The bytes of every message that it publishes: a request has them as `payload` or `bodyBase64`. */
    body: value<Uint8Array>(),
    /** Every tick up to here was run or skipped. */
    reachedAt: value<EpochMs>(),
    /** The next tick; null when there is none, and with `@after` until the deliveries of the last run have ended. */
    nextAt: value<EpochMs | null>(),
    /** Failed tries in a row. */
    failures: value<number>(),
    /** The last runs, the newest first. */
    runs: json<readonly ScheduleRun[]>(),
    /** Grows with every change and every run. An update of an earlier revision has no effect. */
    revision: value<number>(),
  },
})

/** A schedule as it is stored. Damaged: its headers do not open, and nothing is published until they are replaced. */
export type Schedule = Thing<typeof schedule>
/** The fields that callers set. */
export type NewSchedule = New<typeof schedule> & Pick<State<typeof schedule>, 'body'>

export interface ScheduleRun {
  /** The tick; for skipped ticks the last of them. */
  readonly at: EpochMs
  readonly ranAt: EpochMs
  readonly state: 'published' | 'failed' | 'skipped'
  readonly trigger: 'cron' | 'manual'
  /** The id of the message it published. */
  readonly message: string | null
  readonly error: string | null
  /** How many ticks were skipped, up to a hundred, or how many tries of one tick failed. */
  readonly count: number
}

export interface DueSchedule extends Schedule {
  /** Its application's id. */
  readonly appId: string
}
