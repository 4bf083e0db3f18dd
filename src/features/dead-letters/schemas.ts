import { type Static, type TProperties, Type } from 'typebox'
import type { FieldError } from '../../domain/app-error.ts'
import type { Clock } from '../../domain/clock.ts'
import type { DeadLetter, MessageSummary } from '../../domain/delivery.ts'
import { deadFilterFields } from '../../domain/filter-fields.ts'
import { decodeKey, keyTime, type Prefix } from '../../domain/ids.ts'
import { deadReasons } from '../../domain/judge.ts'
import {
  appId,
  type BodyOf,
  closed,
  dateTime,
  described,
  endpointId,
  fromQuery,
  inBody,
  inQuery,
  instant,
  integer,
  iso,
  Labels,
  maybe,
  msgId,
  nullable,
  optional,
  text,
  url,
  whole,
} from '../../operations/fields.ts'
import { lookUp } from '../../operations/lookup.ts'
import { PageQuery } from '../../operations/page.ts'
import type { Out } from '../../operations/route.ts'
import { type RequestPart, readInstants, refuseIf } from '../../operations/validate.ts'
import type { Store } from '../../store/store.ts'
import type { Application } from '../applications/noun.ts'
import { MessageAttemptOut } from '../attempts/schemas.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import { EnvelopeIn, MessageOut, Payload } from '../messages/schemas.ts'
import { chosenLimit, type DeadFilter } from '../tasks/rules.ts'

const reason = described(Type.Enum([...deadReasons]), deadFilterFields.reason.description)

const shown = MessageOut.properties
const asked = EnvelopeIn.properties

const letter = {
  appId,
  msgId,
  endpointId,
  url,
  eventType: shown.eventType,
  eventId: shown.eventId,
  channels: shown.channels,
  reason,
  attempts: whole('Attempts that were made.'),
  publishedAt: instant('Time of the publish.'),
  diedAt: instant('Time at which it became a dead letter.'),
  responseStatusCode: whole('HTTP status of the last answer; 0 without one.'),
  code: text('Outcome of the last attempt by name.'),
  error: nullable(text('Error of the last attempt.')),
  response: nullable(text('Last answer, cut short.')),
}

/** A delivery that used up its attempts or its time. */
export const DeadLetterOut = Type.Object(letter)

/** The same, with every attempt that was made. */
export const DeadLetterTrailOut = Type.Object({ ...letter, trail: Type.Array(MessageAttemptOut) })

/** The same, with the body and all fields that an import needs. */
export const DeadLetterLine = Type.Object({
  ...letter,
  responseBase64: nullable(text('The answer, if it is not UTF-8 text.')),
  appUid: nullable(Type.String()),
  endpointUid: nullable(Type.String()),
  contentType: nullable(Type.String()),
  tags: shown.tags,
  headers: nullable(described(Labels, asked.headers)),
  deliverAt: shown.deliverAt,
  expiresAt: shown.expiresAt,
  orderingKey: shown.orderingKey,
  orderKey: nullable(whole('Key of its queue in an ordered lane.')),
  variant: nullable(
    Type.Object(
      {
        bodyBase64: nullable(Type.String()),
        signature: nullable(text('Signature profile of the requests; `standard` by default.')),
      },
      { description: "Body and signature of this endpoint, where they differ from the message's." },
    ),
  ),
  bodyBase64: nullable(text('The body, where the payload is missing or not exactly its bytes')),
  payload: Type.Optional(Payload),
})

export const DeadImportOut = Type.Object({
  checked: whole('Lines that are valid.'),
  imported: whole('Lines that became dead letters.'),
  unchanged: whole('Lines whose delivery was a dead letter already, or has been delivered or replayed since.'),
  skipped: Type.Array(
    Type.Object({ line: Type.Integer(), problem: Type.String() }, { description: 'A line that was left out, and why' }),
  ),
})

export const DeadImportQuery = Type.Object(
  {
    endpoint_id: optional(Type.String({ maxLength: 256 }), 'Import all of them for this endpoint.'),
    skip_bad: optional(Type.Boolean(), 'Whether lines that cannot be imported are left out'),
    dry_run: optional(Type.Boolean(), 'Whether the lines are only checked'),
    first_line: optional(integer(1, 1e12), 'The number of the first line, for saying which ones are bad'),
  },
  closed,
)
export type DeadImportQuery = Static<typeof DeadImportQuery>

const { endpoint_id: _, ...ofAnyApplication } = DeadImportQuery.properties
export const AnyDeadImportQuery = Type.Object(ofAnyApplication, closed)

const base64 = maybe(Type.String())
const upTo = (maxLength: number) => Type.String({ maxLength })

/** The fields of a line, beside the payload, that a dead letter needs. Other fields are ignored. */
export const DeadLineIn = Type.Object({
  appId: maybe(upTo(256), 'Application, by id; an import of all applications needs it.'),
  appUid: maybe(upTo(256), 'Application, by uid, where no application has the id.'),
  msgId: described(upTo(64), msgId),
  endpointId: described(upTo(256), endpointId),
  endpointUid: maybe(upTo(256)),
  eventType: asked.eventType,
  eventId: asked.eventId,
  channels: asked.channels,
  tags: asked.tags,
  headers: asked.headers,
  contentType: maybe(upTo(256)),
  deliverAt: maybe(dateTime, shown.deliverAt),
  expiresAt: maybe(dateTime, shown.expiresAt),
  orderingKey: maybe(upTo(256), shown.orderingKey),
  orderKey: maybe(integer(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)),
  reason,
  attempts: integer(0, 1_000_000_000),
  diedAt: dateTime,
  responseStatusCode: integer(0, 999),
  code: Type.String({ pattern: '^[a-z_]{1,40}$' }),
  error: maybe(upTo(10_000)),
  response: maybe(Type.String()),
  responseBase64: base64,
  bodyBase64: base64,
  variant: maybe(
    Type.Object({
      bodyBase64: base64,
      signature: maybe(upTo(1000), 'Signature profile of the requests; `standard` by default.'),
    }),
  ),
})
export type DeadLineIn = Static<typeof DeadLineIn>

export function toDeadOut(
  letter: DeadLetter,
  message: Omit<MessageSummary, 'bytes'> | undefined,
  endpoint: Endpoint | undefined,
  appId: string,
): Out<typeof DeadLetterOut> {
  return {
    appId,
    msgId: message?.id ?? '',
    endpointId: endpoint?.id ?? '',
    url: endpoint?.url ?? '',
    eventType: message?.eventType ?? '',
    eventId: message?.eventId ?? null,
    channels: message?.channels ?? null,
    reason: letter.reason,
    attempts: letter.attempts,
    publishedAt: iso(keyTime(letter.message)),
    diedAt: iso(letter.diedAt),
    responseStatusCode: letter.status,
    code: letter.code,
    error: letter.error,
    response: letter.response === null ? null : Buffer.from(letter.response).toString('utf8'),
  }
}

/** Whose dead letters: those of one application, or of all. A message or an endpoint is named within an application. */
export type Whose = 'one' | 'all'

const { msgId: ofMessage, endpointId: ofEndpoint, ...ofAll } = deadFilterFields

/** The filter in a body, with more fields beside it. */
export function filterBody<More extends TProperties>(whose: Whose, more: More) {
  const filter = inBody(whose === 'one' ? deadFilterFields : ofAll)
  // A mistyped name would otherwise mean far more dead letters than the caller asked for.
  return Type.Unsafe<Names & Static<ReturnType<typeof Type.Object<More>>>>(Type.Object({ ...filter, ...more }, closed))
}

/** Dead letters by name: their number is bounded, and so is the work to read them. */
export const Letters = maybe(
  Type.Array(
    Type.Object(
      { msgId: described(upTo(64), 'Message, by id.'), endpointId: described(upTo(64), 'Endpoint, by id.') },
      closed,
    ),
    {
      minItems: 1,
      maxItems: chosenLimit,
      description:
        'These dead letters alone; not with `msgId`, `endpointId` or `eventTypes`. Those that are gone by then are left out.',
    },
  ),
)

/** The deliveries that a body chooses; null when its filter does. */
export function toLetters({ letters, ...filter }: Names & { readonly letters?: Static<typeof Letters> }) {
  if (letters == null) return null
  const problems: FieldError[] = []
  for (const name of ['msgId', 'endpointId', 'eventTypes'] as const) {
    if (filter[name] == null) continue
    problems.push({ at: ['body', name], message: 'cannot be combined with letters', type: 'combination' })
  }
  const keyOf = (prefix: Prefix, id: string, at: FieldError['at']) => {
    const key = decodeKey(prefix, id)
    if (key === undefined) problems.push({ at, message: 'is not an id', type: 'id' })
    return key ?? 0
  }
  const keys = letters.map(({ msgId, endpointId }, i) => ({
    endpoint: keyOf('ep', endpointId, ['body', 'letters', i, 'endpointId']),
    message: keyOf('msg', msgId, ['body', 'letters', i, 'msgId']),
  }))
  refuseIf(problems)
  return keys
}

/** The filter in a query; a list also has pages. */
export function filterQuery(whose: Whose, of: 'list' | 'count' | 'all') {
  const filter = inQuery(
    whose === 'all' ? ofAll : { endpointId: ofEndpoint, ...ofAll, ...(of === 'all' && { msgId: ofMessage }) },
  )
  if (of === 'list') return Type.Unsafe<PageQuery>(Type.Object({ ...PageQuery.properties, ...filter }))
  return Type.Unsafe<PageQuery>(Type.Object(filter, closed))
}

type Names = BodyOf<typeof deadFilterFields>

export function namesIn(query: object): Names {
  return fromQuery(deadFilterFields, query)
}

/** The store's clock may be ahead of this machine's; a delivery that has just died counts. */
const skewMs = 60_000

/** The filter with the things that it names. AppError `not_found` when one does not exist. */
export async function toDeadFilter(
  { store, clock }: { readonly store: Store; readonly clock: Clock },
  app: Application | undefined,
  names: Names,
  part: RequestPart,
): Promise<DeadFilter> {
  const { before, after } = readInstants(part, { before: names.before, after: names.after })
  const keyOf = async (noun: 'endpoint' | 'message', ref: string | null | undefined) => {
    if (app === undefined || ref == null) return null
    const find = noun === 'endpoint' ? store.findEndpoint : store.findMessage
    return (await lookUp<{ readonly key: number }>(noun, ref, (name) => find(app.key, name))).key
  }
  return {
    endpoint: await keyOf('endpoint', names.endpointId),
    message: await keyOf('message', names.msgId),
    eventTypes: names.eventTypes ?? null,
    reason: names.reason ?? null,
    after: after === undefined ? 0 : after + 1,
    // Deliveries that die while a task runs are left out.
    before: before ?? clock.now() + skewMs,
  }
}
