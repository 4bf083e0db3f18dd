import { isSame } from '../../domain/field.ts'
import type { DeliveryKey } from '../../store/messages.ts'
import type { Plan } from '../../store/plan.ts'
import { among, bytes, lengthOf, rowsOf } from '../../store/sql/dialect.ts'
import { answerBytes, inSpan, spanOfKeys } from '../../store/sql/message-rows.ts'
import { deleteQueued, findPlaces, type QueuePlace } from '../../store/sql/pending-rows.ts'
import type { Methods, Port, Sql, Transaction, Work } from '../../store/sql/port.ts'
import { statement } from '../../store/sql/statement.ts'
import type { StoreContext } from '../../store/store.ts'
import { openValue, type SealedPlace, sealValue, unlessDamaged } from '../../store/vault.ts'
import type { Application } from '../applications/noun.ts'
import { filedBy } from '../dead-file/rows.ts'
import {
  deleteForms,
  type ErasableMessage,
  type ErasedAnswers,
  eraseAnswers,
  erasingBodies,
  lockAll,
  producerColumns,
  strayDeliveries,
  unindex,
  waitingMessages,
} from './content-rows.ts'
import { type Erased, type MessageWeight, nothingErased } from './rules.ts'
import {
  type Erasure,
  type Rewritten,
  type SubjectMessage,
  type SubjectRules,
  type Subjects,
  unindexedSubject,
} from './store.ts'

const selectIndexing = statement<{ pointers: string | null; secret: string | null; since: number | null }>(
  'subject-indexing',
)`
  select coalesce(a.settings, '{}') ->> 'subjectPointers' as pointers, k.secret, k.since
    from application as a left join subject_key as k on k.app = a.key
   where a.key = :app and a.deleted_at is null`
const upsertKey = statement('set-subject-key')`
  insert into subject_key (app, secret, since) values (:app, :secret, :now)
  on conflict (app) do update set since = excluded.since`
// Two ranges of the primary key.
const ofHash = (hash: string) => `
  select message from subject
   where app = :app and hash = ${hash} and message > :after and message < :until order by message limit :limit`
const selectMessages = statement<SubjectMessage>('subject-messages', { flags: ['indexed'] })`
  select message, max(indexed) = 1 as indexed
    from (select message, 1 as indexed from (${ofHash(':hash')}) as named
          union all
          select message, 0 as indexed from (${ofHash(`'${unindexedSubject}'`)}) as unread) as found
   group by message order by message limit :limit`

// Neither database reads a body or an answer to tell its length.
const ofMessage = (table: string) =>
  `from ${table} where ${table}.message = message.key and ${inSpan(`${table}.message`)}`
const weighAll = statement<MessageWeight>('weigh-messages')`
  select key as message, ${lengthOf('endpoints')} as endpoints, (select count(*) ${ofMessage('attempt')}) as attempts,
         cast(length(body) + coalesce((select sum(length(body)) ${ofMessage('variant')}), 0) as bigint) as "bodyBytes",
         cast(coalesce((select sum(${answerBytes}) ${ofMessage('attempt')}), 0) as bigint) as "answerBytes"
    from message where ${among('key', ':messages')} and ${inSpan('key')} order by key`

const secretLength = 43

/** Finds messages by their data subjects. */
export function subjects(port: Port): Methods<Omit<Subjects, 'scrubErased'>> {
  return {
    *findSubjectIndex(app) {
      const row = yield* port.first(selectIndexing, { app })
      const rules = row && subjectRules(row.pointers, row.secret, app, port.context)
      return rules && { ...rules, since: row?.since ?? 0 }
    },

    listSubjectMessages: (app, hash, { after, until, limit }) =>
      port.all(selectMessages, { app, hash, after, until, limit }),

    *weighMessages(messages) {
      return messages.length === 0 ? [] : yield* port.all(weighAll, { messages, ...spanOfKeys(messages) })
    },

    waitingAmong: (messages) => waitingMessages(port, messages),

    *listVariants(message) {
      const { plan } = (yield* port.first(selectPlan, { message })) ?? { plan: null }
      const owners = new Map<number, number>()
      for (const [endpoint, { variant }] of Object.entries(plan ?? {})) {
        if (variant !== undefined && !owners.has(variant)) owners.set(variant, Number(endpoint))
      }
      return [...owners].map(([n, endpoint]) => ({ n, endpoint }))
    },
  }
}

/** Notes since when new pointers index messages, and makes the secret of an application that has none yet. */
export function* followPointers(
  sql: Sql,
  { vault, randomText }: StoreContext,
  { key: app, settings }: Application,
  before?: Application,
): Work<void> {
  const { subjectPointers } = settings
  if (subjectPointers === undefined || isSame(subjectPointers, before?.settings.subjectPointers)) return
  // The secret of an application that has one stays: hashes that are stored keep their meaning.
  const secret = sealValue(vault, { secret: randomText(secretLength) }, subjectKeyPlace(app)) as string
  yield* sql.run(upsertKey, { app, secret })
}

/** The rules in stored columns. A secret that does not open is null, and leaves a line in the log. */
export function subjectRules(
  pointers: string | null,
  stored: string | null,
  app: number,
  { vault, log }: Pick<StoreContext, 'vault' | 'log'>,
): SubjectRules | undefined {
  if (pointers === null) return undefined
  const open = () =>
    stored === null ? null : openValue<{ secret: string }>(vault, stored, subjectKeyPlace(app)).secret
  const secret = unlessDamaged(open, log, 'messages cannot be indexed by their data subjects') ?? null
  return { pointers: JSON.parse(pointers), secret }
}

/** No endpoint has this key. */
export function subjectKeyPlace(app: number): SealedPlace {
  return { app, endpoint: 0, field: 'subject key' }
}

/** The columns beside the body in which a producer may have named the person. */
const otherColumns = `${producerColumns}, event_id = null`
const eraseMessages = erasingBodies('erase-subject-messages', `${otherColumns}, erase_reason = 'subject'`)
const rewriteMessage = statement('rewrite-subject-message')`
  update message set body = ${bytes(':body')}, ${otherColumns} where key = :message`
const selectRewritten = statement('find-rewritten')`
  select key from message where key = :message and body = ${bytes(':body')}`
const rewriteVariant = statement('rewrite-variant')`
  update variant set body = ${bytes(':body')}, signature = cast(:signature as text)
   where message = :message and n = :n`
const deleteOtherVariants = statement('delete-other-variants')`
  delete from variant where message = :message and not (${among('n', ':kept', 'integer')})`
const deleteEventIds = statement('delete-subject-event-ids')`
  delete from event_id
   where app = :app and ${among('event_id', ':event_ids', 'text')} and ${among('message', ':messages')}`
const insertSubjects = statement('index-subjects-again')`
  insert into subject (app, hash, message)
  select :app, cast(:hash as text), found.message from ${rowsOf(':messages', 'found', { message: 'bigint' })} where true
  on conflict do nothing`
const selectPlan = statement<{ plan: Plan | null }>('subject-plan', {
  json: ['plan'],
})`
  select plan from message where key = :message`

/** A message of a step, and what becomes of it. */
interface Case {
  readonly erasure: Erasure
  readonly row: ErasableMessage
  readonly isFirst: boolean
  readonly isLast: boolean
  readonly places: readonly QueuePlace[]
  readonly fate: 'erased' | 'rewritten' | 'settled' | 'spared'
}

/**
 * Erases a data subject from messages, within a transaction that overwrites the bytes. Each statement is for all messages
 * at once, but for those that write a new body.
 */
export function* eraseSubjects(sql: Transaction, erasures: readonly Erasure[]): Work<Erased> {
  const messages = erasures.map(({ message }) => message)
  const locked = new Map((yield* lockAll(sql, messages)).map((row) => [row.key, row]))
  const present: [Erasure, ErasableMessage][] = []
  for (const erasure of erasures) {
    const row = locked.get(erasure.message)
    // Another erasure of the same person was faster, and looks at the message once more itself.
    if (row !== undefined && !(yield* isRewritten(sql, erasure))) present.push([erasure, row])
  }
  const deliveries = yield* deliveriesOf(sql, present)
  const places = Map.groupBy(yield* findPlaces(sql, deliveries, { areAccepted: true }), ({ message }) => message)
  const cases = present.map(([erasure, row]) => caseOf(erasure, row, places.get(row.key) ?? []))
  const touched = cases.filter(({ fate }) => fate !== 'spared')

  yield* erasePayloads(sql, touched)
  // On Postgres the deletion waited for settlements of these rows, which had recorded their attempts by then.
  const cancelled = touched.flatMap((each) => (each.fate === 'erased' ? each.places : []))
  if (cancelled.length > 0) yield* sql.run(deleteQueued, { places: cancelled })
  const keys = new Set(touched.map(({ row }) => row.key))
  const answers = yield* eraseAnswers(
    sql,
    deliveries.filter(({ message }) => keys.has(message)),
  )
  const filed = yield* filedAmong(sql, answers)
  yield* reindex(sql, cases, [...messages.filter((message) => !locked.has(message))])
  const changed = touched.filter(({ fate }) => fate !== 'settled').map(({ row }) => row.key)
  if (changed.length > 0) yield* sql.expunged(changed)
  return summed(touched, answers, filed)
}

function* isRewritten(sql: Sql, erasure: Erasure): Work<boolean> {
  if (erasure.how !== 'rewrite' || (erasure.part?.from ?? 0) > 0) return false
  const { message, body } = erasure
  return yield* sql.any(selectRewritten, { message, body })
}

/** The deliveries that the step deals with. */
function* deliveriesOf(sql: Sql, present: readonly [Erasure, ErasableMessage][]): Work<DeliveryKey[]> {
  const accepted = present.flatMap(([{ part }, { key, endpoints }]) =>
    endpoints.slice(part?.from, part?.until).map((endpoint) => ({ endpoint, message: key })),
  )
  const ends = present.filter(([{ part }, { endpoints }]) => part === undefined || part.until >= endpoints.length)
  const strays = yield* strayDeliveries(
    sql,
    ends.map(([, row]) => row),
  )
  return [...accepted, ...strays]
}

function caseOf(erasure: Erasure, row: ErasableMessage, places: readonly QueuePlace[]): Case {
  const { part } = erasure
  const isLast = part === undefined || part.until >= row.endpoints.length
  return { erasure, row, isFirst: (part?.from ?? 0) === 0, isLast, places, fate: fateOf(erasure, row, places) }
}

function fateOf({ how, part }: Erasure, row: ErasableMessage, places: readonly QueuePlace[]): Case['fate'] {
  if (how === 'settle') return 'settled'
  if (row.expunged) return 'erased'
  const waits = places.length > 0 || row.expanding
  if (how === 'end') return waits ? 'spared' : 'erased'
  // A message in parts is rewritten whether or not anything waits: its first endpoints do not tell.
  return how === 'rewrite' && (waits || part !== undefined) ? 'rewritten' : 'erased'
}

function* erasePayloads(sql: Transaction, touched: readonly Case[]): Work<void> {
  const firsts = touched.filter(({ isFirst }) => isFirst)
  const named = firsts.flatMap(({ row }) => (row.event_id === null ? [] : [{ ...row, event_id: row.event_id }]))
  for (const [app, rows] of Map.groupBy(named, (row) => row.app)) {
    const messages = rows.map(({ key }) => key)
    yield* sql.run(deleteEventIds, { app, event_ids: rows.map((row) => row.event_id), messages })
  }
  for (const { fate, erasure } of firsts) {
    if (fate === 'rewritten' && erasure.how === 'rewrite') yield* rewrite(sql, erasure.message, erasure)
  }
  const messages = firsts.filter(({ fate }) => fate === 'erased').map(({ row }) => row.key)
  if (messages.length === 0) return
  yield* sql.run(eraseMessages, { messages, ...spanOfKeys(messages), nothing: new Uint8Array() })
  yield* deleteForms(sql, messages)
}

function* rewrite(sql: Transaction, message: number, { body, variants }: Rewritten): Work<void> {
  yield* sql.run(rewriteMessage, { message, body })
  yield* sql.run(deleteOtherVariants, { message, kept: variants.map(({ n }) => n) })
  for (const variant of variants) yield* sql.run(rewriteVariant, { message, ...variant })
}

/** The dead letters among those erased that a dead-letter file may hold. */
function* filedAmong(sql: Sql, { dead }: ErasedAnswers): Work<readonly DeliveryKey[]> {
  if (dead.length === 0) return []
  const isFiled = yield* filedBy(sql)
  return dead.filter(({ diedAt }) => isFiled(diedAt))
}

/** Takes messages out of the index by data subjects, but for those that a later step must find. */
function* reindex(sql: Sql, cases: readonly Case[], gone: readonly number[]): Work<void> {
  const done = cases.filter(({ fate, isFirst, isLast }) => fate !== 'spared' && (isFirst || isLast))
  yield* unindex(sql, [...gone, ...done.map(({ row }) => row.key)])
  // A wide message goes on in the next step. After a rewrite, an attempt under way may record an answer yet, so the
  // message is looked at once more.
  const again = [
    ...done.filter(({ fate, isLast }) => !isLast || fate === 'rewritten'),
    ...cases.filter(({ fate }) => fate === 'spared'),
  ]
  for (const [app, list] of Map.groupBy(again, ({ row }) => row.app)) {
    for (const [hash, some] of Map.groupBy(list, ({ erasure }) => erasure.hash)) {
      yield* sql.run(insertSubjects, { app, hash, messages: some.map(({ row }) => ({ message: row.key })) })
    }
  }
}

function summed(touched: readonly Case[], { attempts, dead }: ErasedAnswers, filed: readonly DeliveryKey[]): Erased {
  const settled = new Set(touched.filter(({ fate }) => fate === 'settled').map(({ row }) => row.key))
  const isCounted = ({ message }: DeliveryKey) => !settled.has(message)
  const placesOf = (fate: Case['fate']) =>
    touched.reduce((sum, each) => sum + (each.fate === fate ? each.places.length : 0), 0)
  const counts: Erased['counts'] = {
    ...nothingErased,
    messages: touched.filter(({ fate, isFirst, row }) => isFirst && fate === 'erased' && !row.expunged).length,
    rewritten: touched.filter(({ fate, isFirst }) => isFirst && fate === 'rewritten').length,
    cancelled: placesOf('erased'),
    without: placesOf('rewritten'),
    attempts,
    deadLetters: dead.filter(isCounted).length,
    filed: filed.filter(isCounted).length,
  }
  const written = new Set(filed.filter(isCounted).map(({ message }) => message))
  return { counts, filedMessages: touched.filter(({ row }) => written.has(row.key)).map(({ row }) => row.id) }
}
