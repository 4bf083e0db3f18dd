import { choice, type Field, instant, list, text } from './field.ts'
import { deadReasons } from './judge.ts'

/** Limits a list to a time. */
const periodFields = {
  before: {
    kind: instant,
    flag: '--before <INSTANT>',
    description: 'Only items before this instant, RFC 3339.',
    help: 'only before',
  },
  after: {
    kind: instant,
    flag: '--after <INSTANT>',
    description: 'Only items from this instant on, RFC 3339.',
    help: 'only from this instant on',
  },
} as const satisfies FilterFields

const eventTypes = {
  kind: list(text(undefined, 256), 1000),
  flag: '--event-type <TYPE>',
  description: 'Event types: names, groups such as `video.*`, or `*`; null for all.',
  help: 'only this event type',
} as const satisfies Field

/** The messages that a list shows, also as attempts: those that meet every field. */
export const messageFilterFields = {
  channel: { kind: text(), flag: '--channel <CHANNEL>', description: 'Only messages with this channel.' },
  tag: { kind: text(), flag: '--tag <TAG>', description: 'Only messages with this tag.' },
  eventTypes,
  ...periodFields,
} as const satisfies FilterFields

/** The dead letters that a list, an export, a replay or a purge means: those that meet every field. */
export const deadFilterFields = {
  msgId: { kind: text(undefined, 256), description: 'Message, by id; where it is a filter, also by eventId.' },
  endpointId: {
    kind: text(undefined, 256),
    flag: '--endpoint <ENDPOINT>',
    description: 'Endpoint, by id; where it is a filter, also by uid.',
    help: 'only at this endpoint, by id or uid',
  },
  eventTypes,
  reason: {
    kind: choice(deadReasons),
    flag: '--reason <REASON>',
    description: `Reason: ${deadReasons.map((word) => `\`${word}\``).join(', ')}.`,
    help: `only for this reason: ${deadReasons.join(', ')}`,
  },
  ...periodFields,
} as const satisfies FilterFields

/** The rows of the audit log that a list shows. */
export const auditFilterFields = {
  actor: {
    kind: text(undefined, 256),
    flag: '--actor <KEY>',
    description: 'Id of the key or token that made the change.',
    help: 'only by this key',
  },
  action: {
    kind: text(undefined, 256),
    flag: '--action <ACTION>',
    description: 'Method and path of the route.',
    help: 'only this kind of change',
  },
  appId: {
    kind: text(undefined, 256),
    flag: '--app <APP>',
    description: 'Only this application, by id or uid; by id also after it was deleted.',
    help: 'only of this application, by id or uid; by id also after it was deleted',
  },
  ...periodFields,
} as const satisfies FilterFields

type FilterFields = Readonly<Record<string, Field>>
