import { type TSchema, Type } from 'typebox'
import { appId, endpointId, Instant, instant, nullable, text, whole } from '../../operations/fields.ts'
import type { NoticeType } from './rules.ts'

/** The endpoint that a notice is about. */
const concerned = {
  appId,
  appUid: nullable(text('Its uid.')),
  endpointId,
  endpointUid: nullable(text('Its uid.')),
}

const lastAttempt = Type.Object({
  id: text('Id of the attempt.'),
  responseStatusCode: Type.Integer({ description: 'Status of the answer; 0 without one.' }),
  timestamp: instant('When it began.'),
})

const ofMessage = {
  ...concerned,
  msgId: text('Id of the message.'),
  msgEventId: nullable(text("The producer's id of the message.")),
  lastAttempt,
}

const openings = whole('How often the circuit opened since it was last closed.')

const alert = {
  rule: text('Name of the rule.'),
  subject: nullable(text('The subject of the rule, such as the id of an endpoint; null for the whole system.')),
  alertId: text('The same in the two notices of an alert.'),
  severity: Type.Enum(['warning', 'critical']),
  sentence: text('The trouble in one sentence.'),
  command: text('The command that shows more.'),
  value: Type.Number({ description: 'The figure.' }),
  threshold: Type.Number({ description: 'The threshold of the rule.' }),
  app: nullable(text('The application that it is about.')),
  endpoint: nullable(text('The endpoint that it is about.')),
  firedAt: nullable(instant('When the alert began to fire.')),
  resolvedAt: nullable(instant('When it was clear again; null before.')),
}

/** The data of each notice, and when it is sent. */
const data: Readonly<Record<NoticeType, readonly [sentWhen: string, data: Record<string, TSchema>]>> = {
  'endpoint.created': ['An endpoint was created', concerned],
  'endpoint.updated': ['Settings of an endpoint changed', concerned],
  'endpoint.deleted': ['An endpoint was deleted', concerned],
  'endpoint.enabled': ['A disabled endpoint was enabled', concerned],
  'endpoint.disabled': [
    'Sluice disabled an endpoint',
    {
      ...concerned,
      failSince: instant('Since when its attempts had failed.'),
      reason: Type.Enum(['operator', 'gone', 'failing'], { description: '`gone`: it answered 410.' }),
    },
  ],
  'endpoint.circuit.opened': [
    'The circuit of an endpoint opened: deliveries wait',
    {
      ...concerned,
      reason: Type.Enum(['failures', 'ratio', 'probe', 'operator']),
      failures: whole('Failed attempts in a row.'),
      openings,
      openForMs: nullable(whole('How long it stays open; null until an operator closes it.')),
    },
  ],
  'endpoint.circuit.half_open': ['One delivery probes an endpoint whose circuit is open', { ...concerned, openings }],
  'endpoint.circuit.closed': [
    'The circuit of an endpoint closed: deliveries go on',
    {
      ...concerned,
      reason: Type.Enum(['probe', 'operator', 'policy'], {
        description: '`policy`: its endpoint has no circuit any more.',
      }),
      rampMs: whole('Over how long the rate rises to the full one.'),
    },
  ],
  'message.attempt.exhausted': ['A delivery became a dead letter', ofMessage],
  'message.attempt.failing': ['A delivery failed for the fourth time', ofMessage],
  'message.attempt.recovered': ['A delivery succeeded after four failures', ofMessage],
  'alert.firing': ['A figure of the server is beyond its threshold', alert],
  'alert.resolved': ['The figure is clear again', alert],
}

/** A message that Sluice itself sends. */
export interface NoticeSchema {
  readonly name: string
  readonly summary: string
  readonly body: TSchema
}

/** The messages of operational webhooks, by event type. Their names are Svix's where it has them. */
export const noticeSchemas: Readonly<Record<string, NoticeSchema>> = Object.fromEntries(
  Object.entries(data).map(([type, [summary, fields]]) => {
    const body = Type.Object({
      type: Type.Literal(type, { description: 'The event type.' }),
      timestamp: Type.Unsafe<string>({ ...Instant, description: 'When it happened.' }),
      data: Type.Object(fields),
    })
    return [type, { name: nameOf(type), summary, body }]
  }),
)

/** `EndpointCircuitHalfOpenEvent`. */
function nameOf(type: string): string {
  return `${type.replace(/(?:^|[._])(\w)/g, (_, first: string) => first.toUpperCase())}Event`
}
