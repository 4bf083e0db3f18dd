import { expungedResponse } from '../messages.ts'
import type { Plan } from '../plan.ts'
import {
  type Erased,
  type ErasedCounts,
  type Erasure,
  endpointsPerErasure,
  nothingErased,
  type Rewritten,
} from '../subjects.ts'
import { deleteFanOut, deleteSubjects, deleteVariants, eraseDead, producerColumns } from './erasing.ts'
import { selectAttempted } from './messages.ts'
import type { Sql, Transaction, Work } from './port.ts'
import { deleteQueued, findPlaces } from './queues.ts'
import { statement } from './statement.ts'

interface LockedMessage {
  readonly id: string
  readonly app: number
  readonly event_id: string | null
  readonly endpoints: number[]
  readonly expunged: boolean
  readonly expanding: boolean
}

// The lock comes first: a replay either sees that the body is gone, or has queued its row and is seen here.
const lockMessage = statement<LockedMessage>(
  'lock-subject-message',
  ({ forUpdate }) => `
    select id, app, event_id, endpoints, expunged_at is not null as expunged,
           exists (select 1 from fan_out where fan_out.message = message.key) as expanding
      from message where key = :message ${forUpdate}`,
  { json: ['endpoints'], flags: ['expunged', 'expanding'] },
)
/** The columns beside the body in which a producer may have named the person. */
const otherColumns = `${producerColumns}, event_id = null`
const eraseMessage = statement(
  'erase-subject-message',
  ({ bytes }) => `
    update message set body = ${bytes(':nothing')}, ${otherColumns}, plan = null,
           expunged_at = coalesce(expunged_at, :now), erase_reason = 'subject'
     where key = :message`,
)
const rewriteMessage = statement(
  'rewrite-subject-message',
  ({ bytes }) => `update message set body = ${bytes(':body')}, ${otherColumns} where key = :message`,
)
const selectRewritten = statement(
  'find-rewritten',
  ({ bytes }) => `select key from message where key = :message and body = ${bytes(':body')}`,
)
const rewriteVariant = statement(
  'rewrite-variant',
  ({ bytes }) => `
    update variant set body = ${bytes(':body')}, signature = cast(:signature as text)
     where message = :message and n = :n`,
)
const deleteOtherVariants = statement(
  'delete-other-variants',
  ({ among }) => `delete from variant where message = :message and not (${among('n', ':kept', 'integer')})`,
)
const deleteEventId = statement(
  'delete-subject-event-id',
  'delete from event_id where app = :app and event_id = :event_id and message = :message',
)
const insertSubject = statement(
  'insert-subject',
  'insert into subject (app, hash, message) values (:app, :hash, :message)',
)
// A receiver may have echoed the message, in its answer or in a location that the error quotes.
const eraseAttempts = statement<{ n: number }>(
  'erase-subject-attempts',
  ({ among, bytes }) => `
    update attempt set error = null, response = case when response is not null then ${bytes(':response')} end,
           response_headers = null
     where message = :message and ${among('endpoint', ':endpoints', 'bigint')}
       and (error is not null or response_headers is not null or response <> ${bytes(':response')})
    returning n`,
)
// Leans on unfiled_message.
const eraseUnfiled = statement(
  'erase-subject-unfiled',
  ({ among, bytes }) => `
    update unfiled set error = null, response = case when response is not null then ${bytes(':response')} end
     where message = :message and ${among('endpoint', ':endpoints', 'bigint')}`,
)
// A letter that waits for no file was written to one, if this store ever had a file.
const countFiled = statement<{ count: number }>(
  'count-filed',
  ({ among }) => `
    select count(*) as count from dead
     where ${among('endpoint', ':endpoints', 'bigint')} and message = :message
       and exists (select 1 from dead_file where bytes > 0)
       and not exists (select 1 from unfiled where unfiled.message = dead.message and unfiled.endpoint = dead.endpoint)`,
)
// Refused arrivals are not indexed, and may name anyone. There are a few per source.
const selectSources = statement<{ key: number }>(
  'sources-to-forget',
  'select key from source where app = :app order by key',
)
const deleteSamples = statement(
  'forget-samples',
  ({ among }) => `delete from source_sample where ${among('source', ':sources', 'bigint')} returning slot`,
)
const selectPlan = statement<{ plan: Plan | null }>('subject-plan', 'select plan from message where key = :message', {
  json: ['plan'],
})

/** Rids messages of a data subject, within a transaction that overwrites what it erases. */
export function* eraseSubjects(sql: Transaction, erasures: readonly Erasure[]): Work<Erased> {
  let counts = nothingErased
  const filedMessages: string[] = []
  const changed: number[] = []
  for (const erasure of erasures) {
    const one = yield* eraseOne(sql, erasure)
    if (one === undefined) continue
    counts = sumOf(counts, one.counts)
    if (one.counts.filed > 0) filedMessages.push(one.id)
    if (erasure.how !== 'settle') changed.push(erasure.message)
  }
  if (changed.length > 0) yield* sql.expunged(changed)
  return { counts, filedMessages }
}

export function sumOf(a: ErasedCounts, b: ErasedCounts): ErasedCounts {
  const sums = Object.entries(a).map(([name, count]) => [name, count + b[name as keyof ErasedCounts]])
  return Object.fromEntries(sums) as unknown as ErasedCounts
}

function* eraseOne(sql: Transaction, erasure: Erasure): Work<{ id: string; counts: ErasedCounts } | undefined> {
  const { message, hash, from, how } = erasure
  const row = yield* sql.first(lockMessage, { message })
  if (row === undefined) {
    yield* sql.all(deleteSubjects, { message })
    return undefined
  }
  const isFirst = from === 0
  // Another erasure of the same person was faster, and looks at the message once more itself.
  const { body } = erasure.how === 'rewrite' && isFirst ? erasure : { body: undefined }
  if (body !== undefined && (yield* sql.first(selectRewritten, { message, body })) !== undefined) return undefined
  const isLast = from + endpointsPerErasure >= row.endpoints.length
  const endpoints = row.endpoints.slice(from, from + endpointsPerErasure)
  if (isLast) endpoints.push(...(yield* strangersOf(sql, message, row.endpoints)))
  const deliveries = endpoints.map((endpoint) => ({ endpoint, message }))
  const places = yield* findPlaces(sql, deliveries, { areAccepted: true })

  // A wide message is rewritten whether or not anything waits: its first endpoints do not tell.
  const isWide = row.endpoints.length > endpointsPerErasure
  const goesOn =
    how === 'settle' || (how === 'rewrite' && !row.expunged && (places.length > 0 || row.expanding || isWide))
  if (isFirst && row.event_id !== null) yield* sql.all(deleteEventId, { app: row.app, event_id: row.event_id, message })
  if (isFirst && goesOn && erasure.how === 'rewrite') yield* rewrite(sql, message, erasure)
  if (!goesOn) {
    if (isFirst) {
      yield* sql.all(eraseMessage, { message, nothing: new Uint8Array() })
      yield* sql.all(deleteVariants, { message })
      yield* sql.all(deleteFanOut, { message })
    }
    if (places.length > 0) yield* sql.all(deleteQueued, { places })
  }
  // On Postgres the deletion waited for settlements of these rows, which had recorded their attempts by then.
  const values = { message, endpoints, response: expungedResponse }
  const attempts = (yield* sql.all(eraseAttempts, values)).length
  const filed = how === 'settle' ? 0 : ((yield* sql.first(countFiled, { message, endpoints }))?.count ?? 0)
  const dead = (yield* sql.all(eraseDead, values)).length
  yield* sql.all(eraseUnfiled, values)
  if (isFirst || isLast) {
    yield* sql.all(deleteSubjects, { message })
    // A wide message goes on in the next step. After a rewrite, an attempt under way may record an answer yet, so the
    // message is looked at once more.
    const isFoundAgain = !isLast || (goesOn && how === 'rewrite')
    if (isFoundAgain) yield* sql.all(insertSubject, { app: row.app, hash, message })
  }
  const isRewritten = goesOn && how === 'rewrite'
  const counts: ErasedCounts = {
    messages: isFirst && !goesOn && !row.expunged ? 1 : 0,
    rewritten: isFirst && isRewritten ? 1 : 0,
    cancelled: goesOn ? 0 : places.length,
    without: isRewritten ? places.length : 0,
    attempts,
    deadLetters: how === 'settle' ? 0 : dead,
    filed,
    samples: 0,
  }
  return { id: row.id, counts }
}

function* rewrite(sql: Transaction, message: number, { body, variants }: Rewritten): Work<void> {
  yield* sql.all(rewriteMessage, { message, body })
  yield* sql.all(deleteOtherVariants, { message, kept: variants.map(({ n }) => n) })
  for (const variant of variants) yield* sql.all(rewriteVariant, { message, ...variant })
}

/** Endpoints at which the message was tried although it was not accepted for them. */
function* strangersOf(sql: Sql, message: number, accepted: readonly number[]): Work<number[]> {
  const known = new Set(accepted)
  const attempted = yield* sql.all(selectAttempted, { message })
  return attempted.map(({ endpoint }) => endpoint).filter((endpoint) => !known.has(endpoint))
}

/** Deletes the samples of refused arrivals at the application's sources; answers how many. */
export function* forgetSamples(sql: Sql, app: number): Work<number> {
  const sources = (yield* sql.all(selectSources, { app })).map(({ key }) => key)
  return sources.length === 0 ? 0 : (yield* sql.all(deleteSamples, { sources })).length
}

/** The variants in a message's plan, each with one endpoint that gets it. */
export function* variantOwners(sql: Sql, message: number): Work<{ n: number; endpoint: number }[]> {
  const { plan } = (yield* sql.first(selectPlan, { message })) ?? { plan: null }
  const owners = new Map<number, number>()
  for (const [endpoint, { variant }] of Object.entries(plan ?? {})) {
    if (variant !== undefined && !owners.has(variant)) owners.set(variant, Number(endpoint))
  }
  return [...owners].map(([n, endpoint]) => ({ n, endpoint }))
}
