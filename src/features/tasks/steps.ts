import type { Clock } from '../../domain/clock.ts'
import { type DeadLetterSummary, meetsReplay } from '../../domain/delivery.ts'
import { firstKeyAt } from '../../domain/ids.ts'
import { Matcher } from '../../domain/match.ts'
import { filterMessages, readFilter } from '../../shaping/filter.ts'
import type { DeliveryKey } from '../../store/messages.ts'
import type { Store } from '../../store/store.ts'
import type { AuditEntry } from '../audit/rules.ts'
import type { CountedList } from '../dead-letters/store.ts'
import { managementApplication } from '../endpoints/rules.ts'
import { firstStep } from '../erasure/rules.ts'
import { eraseSubject } from '../erasure/steps.ts'
import type { Erasure } from '../erasure/store.ts'
import {
  type Chosen,
  type DeadFilter,
  type EndpointSpan,
  type Paced,
  queuedPerStep,
  type ReplayFilter,
  restAfter,
  type Span,
  type Task,
  type TaskCursor,
  type TaskData,
  unpackLetters,
} from './rules.ts'
import type { StepDone } from './store.ts'

/** Rows that one step reads: a few milliseconds of the store's time. */
const rowsPerStep = 200
/** Counting the rows of a task stops here: some milliseconds of an index. */
const totalLimit = 100_000
const messagesCounted = 1000
const erasedPerStep = 100
const applicationsPerStep = 50

/** The work of one step, and where the next one continues; a cursor of null means that there is none. */
export interface Step {
  readonly replay: readonly DeliveryKey[]
  readonly onlyDead?: boolean
  readonly purge: readonly DeliveryKey[]
  readonly erase?: readonly Erasure[]
  readonly forgetSamplesOf?: number
  readonly audit?: AuditEntry
  readonly cursor: TaskCursor | null
  restMs(done: StepDone): number
  data(done: StepDone): TaskData
}

/** Finds the next step of a task. It only reads; the store does the step in one transaction. */
export async function nextStep(store: Store, task: Task, clock: Clock): Promise<Step> {
  const list = task.cursor === null ? listOf(task) : undefined
  const total = list === undefined ? totalIn(task.data) : toTotal(await store.countListed(list, totalLimit))
  const step = await stepOf(store, task, clock)
  return { ...step, data: (done) => ({ ...step.data(done), ...total }) }
}

function stepOf(store: Store, task: Task, clock: Clock): Promise<Step> {
  const { work } = task
  switch (work.type) {
    case 'endpoint.recover':
      return recover(store, task, work.input)
    case 'endpoint.replay':
      return replayMissing(store, clock, task, work.input)
    case 'endpoint.bulk-replay':
      return bulkReplay(store, task, work.input)
    case 'dead.replay':
      return walkDead(store, task, work.input, 'revive')
    case 'dead.purge':
      return walkDead(store, task, work.input, 'purge')
    case 'application.purge_content':
      return eraseContents(store, task, work.input)
    case 'subject.erase':
      return eraseSubject(store, clock, task, work.input)
    case 'application.stats':
      return countDestinations(store, task, work.input)
    case 'event-type.aggregate':
      return listSubscriptions(store, task)
  }
}

/** The list that the task walks, where it can be counted. */
function listOf({ app, work }: Task): CountedList | undefined {
  switch (work.type) {
    case 'endpoint.recover':
      return { of: 'dead by message', endpoint: work.input.endpoint, ...keysOf(work.input) }
    case 'endpoint.replay':
    case 'endpoint.bulk-replay':
    case 'application.purge_content':
      return { of: 'messages', app: app as number, ...keysOf(work.input) }
    case 'dead.replay':
    case 'dead.purge': {
      const { message, endpoint, after: from, before: until, letters = null } = work.input as DeadFilter & Chosen
      return message === null && letters === null ? { of: 'dead', app, endpoint, from, until } : undefined
    }
    default:
      return undefined
  }
}

/** The length of that list, so that the progress of the task can be shown. */
function toTotal(count: number): TaskData {
  return count < totalLimit ? { total: count } : { totalAtLeast: count }
}

function totalIn({ total, totalAtLeast }: TaskData): TaskData {
  return total !== undefined ? { total } : totalAtLeast !== undefined ? { totalAtLeast } : {}
}

async function recover(store: Store, task: Task, input: EndpointSpan & Paced): Promise<Step> {
  const range = { ...keysOf(input), after: task.cursor?.[0] ?? null, order: 'ascending', limit: rowsPerStep } as const
  const letters = await store.listDeadOf(input.endpoint, range)
  return walk(task, input, letters, {
    use: 'revive',
    deliveryOf: (letter) => letter,
    cursorAt: ({ message }) => [message],
  })
}

async function replayMissing(store: Store, clock: Clock, task: Task, input: EndpointSpan & Paced): Promise<Step> {
  const [endpoint] = await store.loadEndpoints([input.endpoint])
  const summaries = endpoint === undefined ? [] : await messagesOf(store, task, input)
  const matcher = new Matcher(endpoint === undefined ? [] : [{ ...endpoint, endpoint: endpoint.key }])
  const wanted = summaries.filter(
    (summary) => !summary.expunged && matcher.match(summary.eventType, summary.channels).length > 0,
  )
  const keys = wanted.map((summary) => summary.key)
  const accepted = new Set(await store.acceptedFor(input.endpoint, keys))
  const deliveries = keys.filter((key) => !accepted.has(key)).map((message) => ({ endpoint: input.endpoint, message }))
  const latest = await store.latestAttempts(deliveries)
  const missing = new Map(deliveries.filter((_, i) => latest[i] === undefined).map((each) => [each.message, each]))
  const filter = endpoint?.flow.filter ?? null
  let unfiltered: ReadonlySet<number> = new Set()
  if (filter !== null) {
    const untried = wanted.filter(({ key }) => missing.has(key))
    const answers = await filterMessages(store, clock, readFilter(filter), untried)
    for (const { key } of untried) if (!answers.passed.has(key)) missing.delete(key)
    unfiltered = answers.unfiltered
  }
  return walk(task, input, summaries, {
    deliveryOf: ({ key }) => missing.get(key),
    cursorAt: ({ key }) => [key],
    isUnfiltered: ({ key }) => unfiltered.has(key),
  })
}

async function bulkReplay(store: Store, task: Task, input: EndpointSpan & ReplayFilter & Paced): Promise<Step> {
  const summaries = await messagesOf(store, task, input)
  const deliveries = summaries.map((summary) => ({ endpoint: input.endpoint, message: summary.key }))
  const latest = await store.latestAttempts(deliveries)
  return walk(task, input, summaries, {
    deliveryOf: (summary, i) => (meetsReplay(summary, latest[i], input) ? deliveries[i] : undefined),
    cursorAt: ({ key }) => [key],
  })
}

async function walkDead(
  store: Store,
  task: Task,
  filter: DeadFilter & Chosen & Paced,
  use: 'revive' | 'purge',
): Promise<Step> {
  if (filter.letters != null) return walkChosen(store, task, filter, unpackLetters(filter.letters))
  if (filter.message !== null) {
    const endpoints = await endpointsOf(store, task, filter.message, filter)
    const letters = await Promise.all(endpoints.map((key) => store.findDead(key, filter.message as number)))
    return walk(
      task,
      filter,
      letters.map((letter, i) => ({ letter, endpoint: endpoints[i] as number })),
      {
        use,
        countsAs: ({ letter }) => (letter === undefined ? 0 : 1),
        deliveryOf: ({ letter }) => (letter !== undefined && meetsDead(letter, filter) ? letter : undefined),
        cursorAt: ({ endpoint }) => [endpoint],
      },
    )
  }
  const [diedAt = 0, endpoint = 0, message = 0] = task.cursor ?? []
  const letters = await store.listDead(task.app, {
    endpoint: filter.endpoint,
    from: filter.after,
    until: filter.before,
    after: task.cursor === null ? null : { diedAt, endpoint, message },
    order: 'ascending',
    limit: rowsPerStep,
  })
  const { eventTypes } = filter
  const summaries =
    eventTypes === null ? [] : await store.loadSummaries([...new Set(letters.map((letter) => letter.message))])
  const types = new Map(summaries.map((summary) => [summary.key, summary.eventType]))
  const isMeant = (letter: DeadLetterSummary) =>
    meetsDead(letter, filter) && (eventTypes === null || eventTypes.includes(types.get(letter.message) ?? ''))
  return walk(task, filter, letters, {
    use,
    deliveryOf: (letter) => (isMeant(letter) ? letter : undefined),
    cursorAt: (letter) => [letter.diedAt, letter.endpoint, letter.message],
  })
}

/** Replays chosen letters. Those that are gone, of another application, or have died again since, are left out. */
async function walkChosen(
  store: Store,
  task: Task,
  filter: DeadFilter & Paced,
  chosen: readonly DeliveryKey[],
): Promise<Step> {
  const [looked = 0] = task.cursor ?? []
  const part = chosen.slice(looked, looked + rowsPerStep)
  const found = new Map(
    (await store.summariseDead(part)).map((letter) => [`${letter.endpoint} ${letter.message}`, letter]),
  )
  const rows = part.map(({ endpoint, message }, i) => ({
    letter: found.get(`${endpoint} ${message}`),
    at: looked + i + 1,
  }))
  return walk(task, filter, rows, {
    use: 'revive',
    deliveryOf: ({ letter }) =>
      letter !== undefined && (task.app === null || letter.app === task.app) && meetsDead(letter, filter)
        ? letter
        : undefined,
    cursorAt: ({ at }) => [at],
  })
}

/** How rows become the work of a step. */
interface Walk<Row> {
  readonly use?: 'replay' | 'revive' | 'purge'
  /** How many rows it counts as, of those scanned. */
  countsAs?(row: Row): number
  /** The delivery of the row; undefined when the task leaves it out. */
  deliveryOf(row: Row, i: number): DeliveryKey | undefined
  cursorAt(row: Row): TaskCursor
  /** Whether the filter would take too long for the row. */
  isUnfiltered?(row: Row): boolean
}

/** The step over these rows, up to the limit of its pace. Fewer rows than a step reads are the last ones. */
function walk<Row>(task: Task, pace: Paced, rows: readonly Row[], walk: Walk<Row>): Step {
  const { use = 'replay', countsAs = () => 1, isUnfiltered = () => false } = walk
  const limit = use === 'purge' ? Number.POSITIVE_INFINITY : queuedPerStep(pace)
  const found: DeliveryKey[] = []
  let looked = 0
  let scanned = 0
  let unfiltered = 0
  for (; looked < rows.length && found.length < limit; looked++) {
    const row = rows[looked] as Row
    const delivery = walk.deliveryOf(row, looked)
    if (delivery !== undefined) found.push(delivery)
    scanned += countsAs(row)
    if (isUnfiltered(row)) unfiltered++
  }
  const isLast = looked === rows.length && rows.length < rowsPerStep
  return {
    replay: use === 'purge' ? [] : found,
    onlyDead: use === 'revive',
    purge: use === 'purge' ? found : [],
    cursor: isLast ? null : walk.cursorAt(rows[looked - 1] as Row),
    restMs: ({ replayed }) => restAfter(pace, replayed),
    data: counting(task, scanned, unfiltered),
  }
}

/** Erases the contents of some messages. Unlike other steps it acts before it is saved: erasing twice does no harm. */
async function eraseContents(store: Store, task: Task, span: Span): Promise<Step> {
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

/** Endpoints at which a message may be dead, up to a step's worth: it was accepted for them, or tried there later. */
async function endpointsOf(store: Store, task: Task, message: number, { endpoint, eventTypes }: DeadFilter) {
  const [summary] = await store.loadSummaries([message])
  if (summary === undefined || eventTypes?.includes(summary.eventType) === false) return []
  const [after = -1] = task.cursor ?? []
  if (endpoint !== null) return endpoint > after ? [endpoint] : []
  const [accepted] = await store.loadDestinations([message], Number.MAX_SAFE_INTEGER)
  const all = new Set([...(accepted?.endpoints ?? []), ...(await store.attemptedEndpoints(message))])
  return [...all]
    .filter((key) => key > after)
    .sort((a, b) => a - b)
    .slice(0, rowsPerStep)
}

function meetsDead({ reason, diedAt }: Pick<DeadLetterSummary, 'reason' | 'diedAt'>, filter: DeadFilter): boolean {
  return (filter.reason === null || reason === filter.reason) && diedAt >= filter.after && diedAt < filter.before
}

interface AppStats {
  readonly appId: string
  readonly appUid: string | null
  readonly messageDestinations: number
}

/** Counts a part of one application's messages. The cursor is the application and the last message counted. */
async function countDestinations(
  store: Store,
  task: Task,
  input: Span & { readonly apps: readonly number[] | null },
): Promise<Step> {
  const { apps } = input
  const [current = apps?.[0] ?? managementApplication + 1, after = 0] = task.cursor ?? []
  const stats = (task.data.appStats ?? []) as readonly AppStats[]
  const [app] = (await store.listApplications({ after: current - 1, order: 'ascending', limit: 1 })).items
  const isGone = app === undefined || (apps !== null && app.key !== current)
  if (app === undefined && apps === null) return reading({ appStats: stats }, null)

  const key = isGone ? current : app.key
  const range = { ...keysOf(input), after: key === current ? after : 0, limit: messagesCounted }
  const counted = isGone ? undefined : await store.countDestinations(key, range)
  const before = stats.find((entry) => entry.appId === app?.id)
  const entry = app && {
    appId: app.id,
    appUid: app.uid,
    messageDestinations: (before?.messageDestinations ?? 0) + (counted?.destinations ?? 0),
  }
  const appStats = isGone || entry === undefined ? stats : [...stats.filter((other) => other !== before), entry]
  if (counted?.messages === messagesCounted) return reading({ appStats }, [key, counted.last as number])
  const next = apps === null ? key + 1 : apps[apps.indexOf(current) + 1]
  return reading({ appStats }, next === undefined ? null : [next, 0])
}

async function listSubscriptions(store: Store, task: Task): Promise<Step> {
  const after = task.cursor?.[0] ?? null
  const { items, done } = await store.listApplications({ after, order: 'ascending', limit: applicationsPerStep })
  const found = await Promise.all(
    items.map(async ({ key, id }) => {
      const { list = [] } = (await store.subscriptions(key)) ?? {}
      const types = new Set(list.flatMap(({ eventTypes }) => eventTypes ?? []))
      return {
        appId: id,
        explicitlySubscribedEventTypes: [...types].sort(),
        hasCatchAllEndpoint: list.some(({ eventTypes }) => eventTypes === null),
      }
    }),
  )
  const known = (task.data.event_types ?? []) as readonly unknown[]
  const last = items.at(-1)
  return reading({ event_types: [...known, ...found] }, done || last === undefined ? null : [last.key])
}

function messagesOf(store: Store, task: Task, span: Span, limit = rowsPerStep) {
  const range = { ...keysOf(span), after: task.cursor?.[0] ?? null, order: 'ascending', limit } as const
  return store.listMessages(task.app as number, range)
}

function keysOf({ since, until }: Span): { from: number; until: number } {
  return { from: firstKeyAt(since), until: Math.min(firstKeyAt(until), Number.MAX_SAFE_INTEGER) }
}

/** Adds the counts of a step to those of its task. */
function counting({ data }: Task, scanned: number, unfiltered: number): Step['data'] {
  const counts = data as Readonly<Record<string, number>>
  const { scanned: before = 0, replayed = 0, purged = 0, unfiltered: unfilteredBefore = 0 } = counts
  return (done) => ({
    scanned: before + scanned,
    ...(unfiltered + unfilteredBefore > 0 ? { unfiltered: unfiltered + unfilteredBefore } : {}),
    ...(done.replayed + replayed > 0 || 'replayed' in data ? { replayed: replayed + done.replayed } : {}),
    ...(done.purged + purged > 0 || 'purged' in data ? { purged: purged + done.purged } : {}),
  })
}

/** A step that changes only the task itself. */
export function reading(data: TaskData, cursor: TaskCursor | null): Step {
  return { replay: [], purge: [], cursor, restMs: () => 0, data: () => data }
}
