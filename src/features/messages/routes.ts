import type { Static } from 'typebox'
import { AppError, noSuch } from '../../domain/app-error.ts'
import { isOpen, meetsFilter } from '../../domain/delivery.ts'
import { keySkewMs } from '../../domain/ids.ts'
import { readTraceContext } from '../../domain/trace-context.ts'
import { Turns } from '../../domain/turns.ts'
import type { Envelope } from '../../intake/publication.ts'
import type { Accepted, Publisher } from '../../intake/publisher.ts'
import { withFields } from '../../json/exact.ts'
import { admin, publish, view } from '../../operations/access.ts'
import { hasKey, onceOf, queryOf, replayed } from '../../operations/check.ts'
import { listOf } from '../../operations/fields.ts'
import { isRef, newUid } from '../../operations/lookup.ts'
import { byId, itemBytes, keyRangeOf, readTimes, writePage } from '../../operations/page.ts'
import { anyBytes, type Incoming, type Noun, Reply, route } from '../../operations/route.ts'
import type { IgnoredFields } from '../../operations/unknown-names.ts'
import { refuseIf } from '../../operations/validate.ts'
import type { Once } from '../../store/publishing.ts'
import type { Store } from '../../store/store.ts'
import { type ApplicationIn, toNewApplication } from '../applications/schemas.ts'
import { statusesOfEach } from '../attempts/list-service.ts'
import { fail as failed, isWaiting, type Status, success } from '../attempts/schemas.ts'
import { startTask, TaskStartedOut } from '../tasks/schemas.ts'
import { type ReadMessage, readBatch, readPublish, readRaw } from './reading-service.ts'
import {
  BulkExpungeContentsIn,
  BulkExpungeContentsOut,
  ContentQuery,
  MessageBatchIn,
  MessageBatchOut,
  MessageIn,
  MessageListQuery,
  MessageOut,
  MessagePrecheckIn,
  MessagePrecheckOut,
  messageBytes,
  messagesAsBytes,
  noPayload,
  payloadOf,
  RawQuery,
  shownJson,
  shownPayload,
  toMessageFilter,
} from './schemas.ts'

export const messages = {
  tag: 'Message',
  description: 'One accepted event. Its bytes never change on their way.',
  schemas: {
    MessageIn,
    MessageBatchIn,
    MessageOut,
    MessagePrecheckIn,
    MessagePrecheckOut,
    BulkExpungeContentsIn,
    BulkExpungeContentsOut,
  },
  routes: [
    // The hot path: the body comes as bytes, and its payload stays so all the way to the receiver.
    route('POST /app/:app/msg', publish, {
      id: 'v1.message.create',
      summary: 'Publish a message',
      description:
        'The answer comes after a commit that survives a power cut. A refused publish leaves no trace. An eventId that was used before is a conflict.',
      query: ContentQuery,
      body: MessageIn,
      reading: 'bytes',
      answers: { 202: MessageOut },
      idempotency: 'publish',
      lookup: 'none',
      handle: async ({ params: { app }, query, body: bytes, ignored, request }, services) => {
        assertRef(app)
        const { publisher, scanner, clock, store } = services
        const message = readPublish(scanner, bytes, clock.now(), ignored)
        const { body, application } = message
        const envelope = inTraceOf(request, message.envelope)
        const send = async () => publisher.publish(app, envelope, body, await onceFor(publisher, app, request, bytes))
        const accepted = application === null ? await send() : await orMaking(store, app, request, application, send)
        const out = shown(message, accepted, (query.with_content ?? true) ? shownJson(message.payload) : noPayload)
        return answered(accepted, withWarnings(out, ignored))
      },
    }),
    route('POST /app/:app/msg/batch', publish, {
      id: 'v1.message.create-batch',
      summary: 'Publish several messages, all or none',
      query: ContentQuery,
      body: MessageBatchIn,
      reading: 'bytes',
      answers: { 202: MessageBatchOut },
      idempotency: 'publish',
      lookup: 'none',
      handle: async ({ params: { app }, query, body: bytes, ignored, request }, services) => {
        assertRef(app)
        const { publisher, store } = services
        const { scanner, batchScanner, clock } = services
        const batch = await Turns.by(clock).run(readBatch(scanner, batchScanner(), bytes, clock.now(), ignored))
        const items = batch.map(({ envelope, body }) => ({ envelope: inTraceOf(request, envelope), body }))
        const send = async () => publisher.publishTogether(app, items, await onceFor(publisher, app, request, bytes))
        const application = batch.find((message) => message.application !== null)?.application ?? null
        const accepted = application === null ? await send() : await orMaking(store, app, request, application, send)
        const withContent = query.with_content ?? true
        const bodies = batch.map((m, i) =>
          shown(m, accepted[i] as Accepted, withContent ? shownJson(m.payload) : noPayload),
        )
        return answered(accepted[0], withWarnings(list(bodies), ignored))
      },
    }),
    route('POST /app/:app/msg/raw', publish, {
      id: 'v1.message.create-from-bytes',
      summary: 'Publish any bytes, to be delivered with their content type',
      description:
        'Each header `Sluice-Header-NAME` of the request is a header NAME of the message, such as `Sluice-Header-X-Region: eu`.',
      query: RawQuery,
      body: anyBytes,
      answers: { 202: MessageOut },
      idempotency: 'publish',
      lookup: 'none',
      handle: async ({ params: { app }, query, body: bytes, ignored, request }, { publisher, clock }) => {
        assertRef(app)
        const message = readRaw(query, request.headers, bytes, clock.now())
        const { body } = message
        const envelope = inTraceOf(request, message.envelope)
        const headers = envelope.headers == null ? '' : `${JSON.stringify(envelope.headers)}\n`
        const about = Buffer.from(`${queryOf(request.url)}\n${envelope.contentType}\n${headers}`)
        const once = hasKey(request) ? await onceFor(publisher, app, request, Buffer.concat([about, bytes])) : null
        const accepted = await publisher.publish(app, envelope, body, once)
        // The caller has the bytes; in base64 they would come back a third larger.
        const payload = query.with_content === true ? shownPayload(body, envelope.contentType) : noPayload
        return answered(accepted, withWarnings(shown(message, accepted, payload), ignored))
      },
    }),
    route('POST /app/:app/msg/precheck/active', publish, {
      id: 'v1.message.precheck',
      summary: 'Check whether a message would reach an endpoint',
      body: MessagePrecheckIn,
      answers: { 200: MessagePrecheckOut },
      lookup: 'none',
      handle: async ({ params: { app }, body: { eventType, channels = null, payload } }, { publisher }) => {
        assertRef(app)
        return { active: await publisher.reaches(app, eventType, channels, payload) }
      },
    }),
    route('GET /app/:app/msg', view, {
      id: 'v1.message.list',
      summary: 'List messages',
      description:
        'The last 90 days, unless `before` or `after` says otherwise. When a filter skips many rows, a page may be shorter than asked: continue until `done`.',
      query: MessageListQuery,
      answers: { 200: listOf(MessageOut) },
      handle: ({ app, query }, { store, clock }) => {
        const range = keyRangeOf(readTimes(query, clock.now()))
        const filter = toMessageFilter(query)
        const { with_content: withContent = true, delivery_status: wanted, with_status: withStatus = false } = query
        const looksAtStatus = withStatus || wanted !== undefined
        return writePage(
          clock,
          query,
          {
            read: (after: number | null, order, limit) =>
              store.listMessages(app.key, { ...range, after, order, limit }),
            keep: async (rows) => {
              const met = rows.filter((row) => meetsFilter(row, filter))
              if (!looksAtStatus) return met.map((row) => ({ row, deliveries: undefined }))
              const statuses = await statusesOfEach(store, clock, met)
              const items = met.map((row, i) => ({ row, deliveries: toDeliveryCounts(statuses[i]) }))
              return wanted === undefined ? items : items.filter(({ deliveries }) => (deliveries?.[wanted] ?? 0) > 0)
            },
            keepsAll: isOpen(filter) && wanted === undefined,
            ...(looksAtStatus && { rowsAtOnce: 50 }),
            bytesOf: ({ row }) => itemBytes + (withContent ? row.bytes : 0),
            ...byId('msg'),
          },
          async (items) => {
            const summaries = items.map(({ row }) => row)
            const messages = await messagesAsBytes(store, summaries, withContent)
            if (!withStatus) return messages
            return items.map(({ deliveries = null }, i) => withFields(messages[i] as Buffer, { deliveries }))
          },
        )
      },
    }),
    route('GET /app/:app/msg/:message', view, {
      id: 'v1.message.get',
      summary: 'Get a message by its id or eventId',
      query: ContentQuery,
      answers: { 200: MessageOut },
      handle: ({ message, query: { with_content: withContent = true } }) =>
        messageBytes(message, withContent ? payloadOf(message, message.body) : noPayload),
    }),
    route('POST /app/:app/msg/bulk-expunge', admin, {
      id: 'v1.message.bulk-expunge-content',
      summary: 'Erase the content of several messages',
      body: BulkExpungeContentsIn,
      answers: { 200: BulkExpungeContentsOut },
      handle: async ({ app, body: { ids = [] } }, { store }) => {
        const results = new Map<string, 'expunged' | 'not-found'>()
        for (const id of ids) {
          const message = isRef(id) ? await store.findMessage(app.key, id) : undefined
          if (message !== undefined) await store.expungeMessages([message.key])
          results.set(id, message === undefined ? 'not-found' : 'expunged')
        }
        return { results: Object.fromEntries(results) }
      },
    }),
    route('POST /app/:app/msg/expunge-all-contents', admin, {
      id: 'v1.message.expunge-all-contents',
      summary: 'Erase the content of all messages of an application',
      description: 'All messages accepted before this request, in the background.',
      answers: { 202: TaskStartedOut },
      handle: ({ app }, { store, clock }) => {
        const input = { since: 0, until: clock.now() + keySkewMs }
        const work = { type: 'application.purge_content', input } as const
        return startTask(store, app.key, work, { scanned: 0, messagesPurged: 0 })
      },
    }),
    route('DELETE /app/:app/msg/:message/content', admin, {
      id: 'v1.message.expunge-content',
      summary: 'Erase the content of a message',
      description: 'The message, its time and its attempts stay. Deliveries that have not been sent are cancelled.',
      answers: { 204: null },
      handle: ({ message }, { store }) => store.expungeMessages([message.key]),
    }),
  ],
} satisfies Noun

/** The publisher finds the application among those it remembers; a name that cannot be one is not looked up. */
function assertRef(app: string): void {
  if (!isRef(app)) throw noSuch('application', app)
}

/** The once-only key of a publish; null without an Idempotency-Key. AppError `not_found` when there is no application. */
async function onceFor(
  publisher: Publisher,
  app: string,
  request: Incoming,
  content: Uint8Array,
): Promise<Once | null> {
  return hasKey(request) ? onceOf(request, { app: await publisher.keyOf(app) }, content) : null
}

/** The envelope with the trace that the headers of the request name; an invalid one is ignored, as W3C asks. */
function inTraceOf({ headers: { traceparent, tracestate } }: Incoming, envelope: Envelope): Envelope {
  const trace = traceparent === undefined ? null : readTraceContext(traceparent, tracestate)
  return trace === null ? envelope : { ...envelope, trace }
}

/** The answer to a publish. It says when the publish only repeats an earlier message. */
function answered(accepted: Accepted | undefined, body: Buffer): Reply<202, Buffer> {
  return new Reply(202, body, accepted?.state === 'repeated' ? replayed : {})
}

function shown({ envelope, deliverAt, expiresAt }: ReadMessage, accepted: Accepted, payload: Uint8Array): Buffer {
  const { key, id, unfiltered } = accepted
  const { eventType, eventId, channels, tags = null, orderingKey = null } = envelope
  const bytes = messageBytes(
    { key, id, eventType, eventId, channels, tags, deliverAt, expiresAt, orderingKey },
    payload,
  )
  return unfiltered === 0 ? bytes : withFields(bytes, { unfiltered })
}

/** The answer to a publish that had fields without a meaning says so to programs that look at no header. */
function withWarnings(body: Buffer, ignored: IgnoredFields): Buffer {
  return ignored.isEmpty ? body : withFields(body, { warnings: ignored.warnings })
}

const comma = Buffer.from(',')

/** The list of messages that were just published; it has one page. */
function list(items: readonly Buffer[]): Buffer {
  const parts: Buffer[] = [Buffer.from('{"data":[')]
  for (const [i, item] of items.entries()) parts.push(...(i === 0 ? [item] : [comma, item]))
  parts.push(Buffer.from('],"iterator":null,"prevIterator":null,"done":true}'))
  return Buffer.concat(parts)
}

/** Publishes; when there is no such application, makes it under the uid in the path, if the caller may. */
async function orMaking<T>(
  store: Store,
  app: string,
  { caller }: Incoming,
  application: Static<typeof ApplicationIn>,
  send: () => Promise<T>,
): Promise<T> {
  try {
    return await send()
  } catch (error) {
    const mayMake = caller?.scopes.has('admin') === true && caller.app === null
    const missing = error instanceof AppError && error.code === 'not_found'
    if (!missing || !mayMake) throw error
  }
  newUid('application', 'app', app)
  if (application.uid != null && application.uid !== app) {
    const message = `must be the uid in the path, ${JSON.stringify(app)}`
    refuseIf([{ at: ['body', 'application', 'uid'], message, type: 'uid' }])
  }
  try {
    await store.createApplication({ ...toNewApplication(application), uid: app })
  } catch (error) {
    // Another caller has just made it.
    if (!(error instanceof AppError) || error.code !== 'conflict') throw error
  }
  return send()
}

/** How many deliveries of a message have each status; undefined when they were not looked at. */
function toDeliveryCounts(statuses: readonly Status[] | undefined) {
  if (statuses === undefined) return undefined
  const counts = { success: 0, waiting: 0, fail: 0, canceled: 0 }
  for (const status of statuses) {
    if (status === success) counts.success++
    else if (status === failed) counts.fail++
    else if (isWaiting(status)) counts.waiting++
    else counts.canceled++
  }
  return counts
}
