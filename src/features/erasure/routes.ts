import { Type } from 'typebox'
import { AppError } from '../../domain/app-error.ts'
import type { MessageSummary } from '../../domain/delivery.ts'
import { decodeKey } from '../../domain/ids.ts'
import { Turns } from '../../domain/turns.ts'
import { withFields } from '../../json/exact.ts'
import { eraseSubjects, read } from '../../operations/access.ts'
import {
  closed,
  createdAt,
  described,
  id,
  instant,
  iso,
  listOf,
  maybe,
  nullable,
  text,
  whole,
} from '../../operations/fields.ts'
import { PageQuery, splitByBytes, streamOf } from '../../operations/page.ts'
import { type Noun, type Out, route } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import { refuseIf } from '../../operations/validate.ts'
import { SubjectIndex, SubjectSearch } from '../../shaping/subjects.ts'
import type { Store } from '../../store/store.ts'
import type { Application } from '../applications/noun.ts'
import { statusesOf } from '../attempts/list-service.ts'
import { shownStatus, statusTexts, toAttemptOut } from '../attempts/schemas.ts'
import type { Signature } from '../audit/store.ts'
import { toDeadOut } from '../dead-letters/schemas.ts'
import { oneLine } from '../dead-lines/service.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import { messagesAsBytes } from '../messages/schemas.ts'
import { type Task, taskStatuses } from '../tasks/rules.ts'
import { pageOfTasks } from '../tasks/schemas.ts'
import { type ErasureProgress, type ErasureReport, noProgress, type SubjectErasure, waitingPolicies } from './rules.ts'

const subject = Type.String({
  minLength: 1,
  maxLength: 1024,
  description:
    'The value that names the person in payloads, at one of the subjectPointers: exactly as the text is there, or as the number is written.',
})

const SubjectEraseIn = Type.Object(
  {
    subject,
    waiting: maybe(
      Type.Enum([...waitingPolicies]),
      'Treatment of deliveries that wait: `cancel` (the default), or `deliver-without`, which sends them with `"[erased]"` in place of every value that the pointers name.',
    ),
  },
  closed,
)

const SubjectExportIn = Type.Object(
  {
    subject,
    after: maybe(Type.String({ maxLength: 64 }), 'Id of the last message of an earlier export, to continue behind it.'),
  },
  closed,
)

const counts = {
  messages: whole('Messages whose payload was erased.'),
  rewritten: whole('Messages that are delivered without the values that the pointers name.'),
  cancelled: whole('Deliveries that waited and were cancelled.'),
  without: whole('Deliveries that waited and are made without these values.'),
  attempts: whole('Attempts whose answers were erased.'),
  deadLetters: whole('Dead letters whose answers were erased.'),
  samples: whole('Samples of refused arrivals at sources of the application, all of which are deleted.'),
}

const ErasureReportOut = Type.Object(
  {
    version: whole('Version of this form.'),
    task: text('Id of the erasure.'),
    app: text('Id of the application.'),
    subject: text('Keyed hash of the subject.'),
    waiting: Type.Enum([...waitingPolicies], { description: 'Treatment of deliveries that waited.' }),
    requestedBy: text('Id of the key that asked.'),
    requestedAt: instant('Time of the request.'),
    until: instant('Every message accepted before this time is covered.'),
    finishedAt: instant('Time of the end.'),
    scanned: whole('Messages that were looked at.'),
    erased: Type.Object(counts, { description: 'How much was erased, by kind.' }),
    oldest: nullable(instant('Time of the oldest of these messages.')),
    newest: nullable(instant('Time of the newest of these messages.')),
    left: Type.Object(
      {
        deadLetterFile: Type.Object(
          {
            lines: whole('Dead letters that were written to a dead-letter file before.'),
            messages: Type.Array(Type.String(), { description: 'Ids of their messages, up to 1000.' }),
          },
          { description: 'Lines in files of the operator, which Sluice does not change.' },
        ),
        schedules: Type.Array(Type.String(), { description: 'Ids of schedules whose payload names the subject.' }),
      },
      { description: 'Places that the operator has to look at.' },
    ),
  },
  { description: 'The report; null until the end.' },
)

const SignatureOut = Type.Object(
  {
    algorithm: text('`ed25519`.'),
    keyId: text('Id of the key.'),
    publicKey: text('Public key, in base64.'),
    signature: text('Signature over `sluice erasure`, a line break and the JSON of the report, in base64.'),
  },
  { description: 'Signature of the server under the report; null until the end.' },
)

const ErasureOut = Type.Object({
  id,
  state: Type.Enum([...taskStatuses], { description: 'State of the erasure.' }),
  subject: text('Keyed hash of the subject.'),
  waiting: Type.Enum([...waitingPolicies], { description: 'Treatment of deliveries that wait.' }),
  requestedBy: text('Id of the key that asked.'),
  createdAt,
  scanned: whole('Messages that were looked at so far.'),
  erased: Type.Object(counts, { description: 'How much was erased so far, by kind.' }),
  error: nullable(text('Why it failed.')),
  report: nullable(ErasureReportOut),
  signature: nullable(SignatureOut),
})

const SigningKeyOut = Type.Object({
  id,
  algorithm: text('`ed25519`.'),
  publicKey: text('Public key, in base64.'),
  createdAt,
})

const SubjectLine = Type.Object(
  {
    type: Type.Enum(['message', 'delivery', 'attempt', 'dead_letter', 'end'], {
      description: 'Type of the line.',
    }),
  },
  {
    additionalProperties: true,
    description: 'One message, delivery, attempt or dead letter; the last line ends the list.',
  },
)

function toErasureOut(task: Task): Out<typeof ErasureOut> {
  const { hash, waiting, requestedBy } = task.work.input as SubjectErasure
  const data = task.data as Partial<ErasureProgress> & { report?: ErasureReport; signature?: Signature; error?: string }
  return {
    id: task.id,
    state: task.status,
    subject: hash,
    waiting,
    requestedBy,
    createdAt: iso(task.createdAt),
    scanned: data.scanned ?? 0,
    erased: data.erased ?? noProgress.erased,
    error: data.error ?? null,
    report: data.report ?? null,
    signature: data.signature ?? null,
  }
}

/** A search for a subject. Throws AppError when the application names no pointers, or its secret cannot be read. */
async function searchFor({ store, clock }: Services, { key, id }: Application, person: string) {
  const indexing = await store.findSubjectIndex(key)
  if (indexing === undefined) {
    const remedy = 'Set subjectPointers, the JSON pointers to the values that name persons in its payloads.'
    throw new AppError('conflict', `The application ${id} names no data subjects. ${remedy}`)
  }
  if (indexing.secret === null) {
    const message = `The secret of the data subjects of ${id} cannot be opened; add its encryption key to encryptionKey.`
    throw new AppError('damaged_record', message)
  }
  const hash = new SubjectIndex(indexing).hashOf(person) as string
  return { hash, search: new SubjectSearch(store, clock, key, hash, indexing) }
}

export const subjects = {
  tag: 'Data Subject',
  description:
    'Data subjects: erase and export the data of one person, whom payloads name at the subjectPointers of an application.',
  schemas: { SubjectEraseIn, SubjectExportIn, ErasureOut, ErasureReportOut, SigningKeyOut, SubjectLine },
  routes: [
    route('POST /app/:app/subject/erase', eraseSubjects, {
      id: 'v1.subject.erase',
      summary: 'Erase a data subject',
      description:
        'Erases, in the background, the payloads of all messages accepted so far that name the person, and every answer to them. The audit log names the person by a keyed hash alone.',
      body: SubjectEraseIn,
      answers: { 202: ErasureOut },
      handle: async ({ app, body, request }, services) => {
        const { hash } = await searchFor(services, app, body.subject)
        const input: SubjectErasure = {
          hash,
          waiting: body.waiting ?? 'cancel',
          requestedBy: request.caller?.id ?? '',
          address: request.address ?? '',
        }
        const work = { type: 'subject.erase', input } as const
        return toErasureOut(await services.store.createTask({ app: app.key, work, data: {} }))
      },
    }),
    route('POST /app/:app/subject/export', eraseSubjects, {
      id: 'v1.subject.export',
      summary: 'Export everything about a data subject, one object per line',
      description:
        'Messages by age, each followed by its deliveries, attempts and dead letters. The last line has the type `end`; without it the export was cut off, and continues behind the last message with `after`.',
      body: SubjectExportIn,
      answers: { 200: { lines: SubjectLine } },
      answersSecret: true,
      handle: async ({ app, body }, services) => {
        const after = body.after == null ? 0 : decodeKey('msg', body.after)
        if (after === undefined) {
          refuseIf([{ at: ['body', 'after'], message: 'is not the id of a message', type: 'iterator' }])
        }
        const { search } = await searchFor(services, app, body.subject)
        return streamOf(subjectLines(services, app, search, after ?? 0))
      },
    }),
    route('GET /app/:app/erasure', eraseSubjects, {
      id: 'v1.erasure.list',
      summary: 'List erasures of data subjects',
      query: PageQuery,
      answers: { 200: listOf(ErasureOut) },
      handle: async ({ app, query }, services) => {
        const isWanted = ({ work, app: of }: Task) => work.type === 'subject.erase' && of === app.key
        const page = await pageOfTasks(services, query, isWanted)
        return { ...page, data: page.data.map(({ row }) => toErasureOut(row)) }
      },
    }),
    route('GET /app/:app/erasure/:erasure', eraseSubjects, {
      id: 'v1.erasure.get',
      summary: 'Get an erasure, with its signed report once it has ended',
      answers: { 200: ErasureOut },
      handle: ({ erasure }) => toErasureOut(erasure),
    }),
    route('GET /signing-key', read, {
      id: 'v1.signing-key.list',
      summary: 'List the public keys that this server signs reports with',
      answers: { 200: Type.Object({ data: described(Type.Array(SigningKeyOut), 'Keys, the newest first.') }) },
      handle: async (_call, { store }) => ({
        data: (await store.signingKeys()).map(({ id, publicKey, createdAt }) => {
          return { id, algorithm: 'ed25519', publicKey, createdAt: iso(createdAt) }
        }),
      }),
    }),
  ],
} satisfies Noun

const newLine = Buffer.from('\n')
/** Messages that are looked up at once. */
const messagesAtOnce = 20
/** Deliveries of one message that are looked up at once. */
const deliveriesAtOnce = 500

/**
 * Everything about a data subject behind `after` as lines of JSON: each message that names the subject, followed by its
 * deliveries, its attempts and its dead letters. The last line is of the type `end`; without it, the export was cut off.
 */
async function* subjectLines(
  services: Services,
  app: Application,
  search: SubjectSearch,
  after: number,
): AsyncGenerator<Buffer> {
  const { store } = services
  let messages = 0
  let last: string | null = null
  for (let at: number | null = after; at !== null; ) {
    const page = await search.next(at, Number.MAX_SAFE_INTEGER, messagesAtOnce)
    for (const key of page.messages) {
      const [head] = await store.loadSummaries([key])
      if (head === undefined) continue
      yield* linesOfMessage(services, app, head)
      messages++
      last = head.id
    }
    at = page.next
  }
  yield line({ type: 'end', messages, last })
}

async function* linesOfMessage(services: Services, app: Application, head: MessageSummary): AsyncGenerator<Buffer> {
  const { store, clock } = services
  const turns = Turns.by(clock)
  await turns.next()
  const [message] = await messagesAsBytes(store, [head], true)
  yield Buffer.concat([oneLine(withFields(message as Buffer, { type: 'message' })), newLine])

  const [found] = await store.loadDestinations([head.key], Number.MAX_SAFE_INTEGER)
  const accepted = found?.endpoints ?? []
  for (const keys of inSteps(accepted)) {
    await turns.next()
    const known = new Map((await statusesOf(store, head, keys)).map((facts) => [facts.row, facts]))
    for (const key of keys) {
      const facts = known.get(key)
      yield line({
        type: 'delivery',
        msgId: head.id,
        endpointId: facts?.endpoint.id ?? null,
        url: facts?.endpoint.url ?? null,
        status: facts === undefined ? null : statusTexts[shownStatus(facts, true)],
      })
    }
  }
  const briefs = await store.attemptBriefsOf(head.key)
  for (const part of splitByBytes(briefs, ({ bytes }) => bytes)) {
    await turns.next()
    const endpoints = await endpointsOf(store, part)
    for (const attempt of await store.loadAttempts(part)) {
      const endpoint = attempt && endpoints.get(attempt.endpoint)
      if (attempt && endpoint) yield line({ type: 'attempt', ...toAttemptOut(attempt, head, endpoint, true) })
    }
  }
  const tried = briefs.map(({ endpoint }) => endpoint)
  for (const keys of inSteps([...new Set([...accepted, ...tried])])) {
    await turns.next()
    const dead = await store.deadAmong(keys.map((endpoint) => ({ endpoint, message: head.key })))
    const endpoints = await endpointsOf(store, dead)
    for (const { endpoint: key } of dead) {
      const letter = await store.findDead(key, head.key)
      if (letter) yield line({ type: 'dead_letter', ...toDeadOut(letter, head, endpoints.get(key), app.id) })
    }
  }
}

function* inSteps(keys: readonly number[]): Generator<readonly number[]> {
  for (let at = 0; at < keys.length; at += deliveriesAtOnce) yield keys.slice(at, at + deliveriesAtOnce)
}

/** The endpoints of deliveries by key, also deleted ones. */
async function endpointsOf(
  store: Store,
  deliveries: readonly { readonly endpoint: number }[],
): Promise<Map<number, Endpoint>> {
  const keys = [...new Set(deliveries.map(({ endpoint }) => endpoint))]
  return new Map((await store.recallEndpoints(keys)).map((endpoint) => [endpoint.key, endpoint]))
}

function line(value: object): Buffer {
  return Buffer.concat([Buffer.from(JSON.stringify(value)), newLine])
}
