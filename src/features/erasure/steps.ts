import type { Clock } from '../../domain/clock.ts'
import { firstKeyAt, keySkewMs, keyTime } from '../../domain/ids.ts'
import { Turns } from '../../domain/turns.ts'
import { Outline } from '../../json/outline.ts'
import { bodyShaper } from '../../shaping/shape.ts'
import { SubjectSearch } from '../../shaping/subjects.ts'
import type { Store } from '../../store/store.ts'
import { bodySigner } from '../../wire/profile.ts'
import type { AuditEntry } from '../audit/rules.ts'
import type { AcceptedSpan, Task, TaskCursor } from '../tasks/rules.ts'
import { messagesOf, reading, type Step } from '../tasks/step.ts'
import {
  type ErasureProgress,
  endpointsAtOnce,
  erasureAction,
  erasurePurpose,
  firstStep,
  type MessageWeight,
  noProgress,
  nothingErased,
  progressed,
  reportOf,
  type SubjectErasure,
} from './rules.ts'
import type { Erasure, Rewritten, RewrittenVariant } from './store.ts'

/** Messages that one step looks at. It erases those of them that fit into a step. */
const foundPerStep = 100

/** Messages that one step rewrites, and their bytes: their new bodies are in memory. */
const rewrittenPerStep = 16

const rewrittenBytes = 2 ** 19

/** Schedules that one step reads. */
const schedulesPerStep = 20

/** Between erasing and looking once more: attempts that ended meanwhile are recorded, and late publishes committed. */
const restMs = 1000

/**
 * The phases of an erasure. The cursor is the phase, the last message dealt with, the endpoints of a wide message that are
 * dealt with, whether the round through the messages changed anything, and the way of the wide message.
 */
const walking = 0

const checking = 1

const readingSchedules = 2

/**
 * Finds the next step of an erasure. It walks the messages that name the subject, then looks at the index again and again
 * until a round finds nothing to erase, then at the schedules, and ends with the signed report.
 */
export async function eraseSubject(store: Store, clock: Clock, task: Task, input: SubjectErasure): Promise<Step> {
  const app = task.app as number
  const progress = { ...noProgress, ...(task.data as Partial<ErasureProgress>) }
  const [phase = walking, after = 0, , changed = 0] = task.cursor ?? []
  const indexing = await store.findSubjectIndex(app)
  if (indexing === undefined) throw new Error('the application names no subject pointers any more')
  if (indexing.secret === null) throw new Error("the application's secret for subjects cannot be read")
  const search = new SubjectSearch(store, clock, app, input.hash, indexing)
  if (phase === readingSchedules) return readSchedules(store, clock, task, input, search, progress, after)

  const until = firstKeyAt(task.createdAt + keySkewMs)
  const page =
    phase === walking ? await search.next(after, until, foundPerStep) : await search.indexed(after, until, foundPerStep)
  if (page.messages.length === 0) {
    const data = progressed(progress, page.scanned, [], nothingDone)
    if (page.next !== null) return advancing(data, [phase, page.next, 0, changed])
    if (phase === walking || changed === 1) return advancing(data, [checking, 0, 0, 0], restMs)
    return {
      ...advancing(data, [readingSchedules, 0]),
      forgetSamplesOf: app,
      data: ({ samples = 0 }) => ({
        ...progressed(data, 0, [], { ...nothingDone, counts: { ...nothingErased, samples } }),
      }),
    }
  }

  const { erase, last, next } = await erasuresOf(store, clock, search, task, input, page.messages)
  const isWholePage = next === 0 && last === page.messages.at(-1)
  const reached = next > 0 ? after : isWholePage && page.next !== null ? page.next : last
  const scanned = isWholePage ? page.scanned : 0
  // A message that was only settled needs no further look.
  const isChange = erase.some(({ how }) => how !== 'settle') ? 1 : changed
  return {
    ...advancing(progress, [phase, reached, next, isChange, further.findIndex(({ how }) => how === erase[0]?.how)]),
    erase,
    data: ({ erased = nothingDone }) => ({
      ...progressed(
        progress,
        scanned,
        erase.map(({ message }) => keyTime(message)),
        erased,
      ),
    }),
  }
}

const nothingDone = { counts: nothingErased, filedMessages: [] }

function advancing(progress: ErasureProgress, cursor: TaskCursor, rest = 0): Step {
  return { replay: [], purge: [], cursor, restMs: () => rest, data: () => ({ ...progress }) }
}

/** The erasures of one step, from the first of these messages to `last`; `next` is where a wide message continues, or 0. */
async function erasuresOf(
  store: Store,
  clock: Clock,
  search: SubjectSearch,
  { cursor }: Task,
  { hash, waiting }: SubjectErasure,
  messages: readonly number[],
): Promise<{ erase: Erasure[]; last: number; next: number }> {
  const [phase = walking, , from = 0, , way = 0] = cursor ?? []
  const weights = await store.weighMessages(messages)
  const fitting = firstStep(messages, weights)
  const [first] = fitting as [number]
  const widest = weights.find(({ message }) => message === first)
  const count = widest === undefined ? 0 : endpointsAtOnce(widest)
  const isWide = widest !== undefined && (from > 0 || count < widest.endpoints)
  const some = isWide ? [first] : fitting
  const part = isWide ? { part: { from, until: from + count } } : {}
  const next = isWide && from + count < widest.endpoints ? from + count : 0
  if (from > 0) return { erase: [{ message: first, hash, ...part, ...(further[way] ?? erased) }], last: first, next }
  if (waiting === 'cancel') {
    const erase = some.map((message) => ({ message, hash, ...part, ...erased }))
    return { erase, last: some.at(-1) as number, next }
  }
  // A message that an erasure has rewritten is not erased when its deliveries have ended since.
  const isEnding = phase === walking && !isWide
  const stillWaiting = new Set(isEnding ? await store.waitingAmong(some) : some)
  const list = rewritable(some, stillWaiting, weights)
  const loaded = await store.loadMessages(list.filter((message) => stillWaiting.has(message)))
  const bodies = new Map(loaded.map(({ key, body }) => [key, body]))
  const erase: Erasure[] = []
  for (const message of list) {
    const how = stillWaiting.has(message)
      ? await rewritten(store, clock, search, message, bodies.get(message))
      : ({ how: 'end' } as const)
    // Another erasure has just rewritten it. Its answers are erased when attempts that were under way have ended.
    if (how.how !== 'settle' || phase !== walking) erase.push({ message, hash, ...part, ...how })
  }
  return { erase, last: list.at(-1) as number, next: erase.length === 0 ? 0 : next }
}

/** The first of these messages whose bodies fit into memory, of those that are rewritten; the first one in any case. */
function rewritable(
  messages: readonly number[],
  isRewritten: ReadonlySet<number>,
  weights: readonly MessageWeight[],
): readonly number[] {
  const bytesOf = new Map(weights.map(({ message, bodyBytes }) => [message, bodyBytes]))
  let [count, bytes] = [0, 0]
  const end = messages.findIndex((message, i) => {
    if (!isRewritten.has(message)) return false
    count++
    bytes += bytesOf.get(message) ?? 0
    return i > 0 && (count > rewrittenPerStep || bytes > rewrittenBytes)
  })
  return end < 0 ? messages : messages.slice(0, end)
}

const erased = { how: 'erase' } as const

/** The ways for the further endpoints of a wide message, whose body an earlier step has erased or rewritten. */
const further = [erased, { how: 'rewrite', body: new Uint8Array(), variants: [] }, { how: 'settle' }] as const

/** The message without its subjects. It is erased when there is nothing to rewrite: its body is gone, or not JSON. */
async function rewritten(
  store: Store,
  clock: Clock,
  search: SubjectSearch,
  message: number,
  before: Uint8Array | undefined,
): Promise<({ readonly how: 'rewrite' } & Rewritten) | { readonly how: 'erase' | 'settle' }> {
  const turns = Turns.by(clock)
  const json = before && (await turns.run(Outline.of(before)))
  if (before === undefined || json === undefined) return erased
  // Rewritten by an earlier round.
  if (!(await search.names(before))) return { how: 'settle' }
  const body = await turns.run(search.index.without(json))
  const owners = await store.listVariants(message)
  const endpoints = new Map((await store.loadEndpoints(owners.map(({ endpoint }) => endpoint))).map((e) => [e.key, e]))
  const variants: RewrittenVariant[] = []
  for (const { n, endpoint: key } of owners) {
    const endpoint = endpoints.get(key)
    if (endpoint === undefined) continue
    // Shaped as the endpoint is now: an earlier shape is not kept.
    const shape = bodyShaper(endpoint)
    const own = shape === undefined ? null : await turns.run(shape(body))
    if (own === undefined) continue
    const secret = endpoint.secrets[0]?.secret
    const sign = endpoint.flow.signature === 'stored' && secret !== undefined ? bodySigner(secret) : undefined
    variants.push({ n, body: own, signature: sign?.(own ?? body) ?? null })
  }
  return { how: 'rewrite', body, variants }
}

/** Looks for the subject in schedules, which stay as they are, and ends with the report. */
async function readSchedules(
  store: Store,
  clock: Clock,
  task: Task,
  input: SubjectErasure,
  search: SubjectSearch,
  progress: ErasureProgress,
  after: number,
): Promise<Step> {
  const page = { after: after === 0 ? null : after, order: 'ascending', limit: schedulesPerStep } as const
  const { items, done } = await store.listSchedules(task.app as number, page)
  const named: string[] = []
  for (const { id, body } of items) if (await search.names(body)) named.push(id)
  const data = { ...progress, schedules: [...progress.schedules, ...named] }
  const last = items.at(-1)
  if (!done && last !== undefined) return advancing(data, [readingSchedules, last.key])

  // It may take longer than a lease, and the report does not depend on it.
  void store.scrubErased()
  const app = (await store.applicationRefs([task.app as number])).get(task.app as number)?.id ?? ''
  const report = reportOf(task, app, input, data, clock.now())
  const signature = await store.sign(erasurePurpose, JSON.stringify(report))
  const audit: AuditEntry = {
    actor: input.requestedBy,
    ip: input.address,
    action: erasureAction,
    app,
    target: task.id,
    before: null,
    after: JSON.stringify({ report, signature }),
  }
  return { replay: [], purge: [], cursor: null, audit, restMs: () => 0, data: () => ({ ...data, report, signature }) }
}

const erasedPerStep = 100

/** Erases the contents of some messages. Unlike other steps it acts before it is saved: erasing twice does no harm. */
export async function eraseContents(store: Store, task: Task, span: AcceptedSpan): Promise<Step> {
  const summaries = await messagesOf(store, task, span, erasedPerStep)
  const left = summaries.filter(({ expunged }) => !expunged).map(({ key }) => key)
  const fitting = firstStep(left, await store.weighMessages(left))
  await store.expungeMessages(fitting)
  const isWhole = fitting.length === left.length
  const last = isWhole ? summaries.at(-1)?.key : fitting.at(-1)
  const { scanned = 0, messagesPurged = 0 } = task.data as Readonly<Record<string, number>>
  const passed = summaries.filter(({ key }) => key <= (last ?? 0)).length
  const data = { scanned: scanned + passed, messagesPurged: messagesPurged + fitting.length }
  return reading(data, isWhole && summaries.length < erasedPerStep ? null : [last as number])
}
