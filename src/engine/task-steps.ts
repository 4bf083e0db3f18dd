import type { DeadLetter } from '../domain/delivery.ts'
import { managementApplication } from '../domain/endpoint.ts'
import { firstKeyAt } from '../domain/ids.ts'
import { Matcher } from '../domain/match.ts'
import { meetsReplay } from '../domain/message-filter.ts'
import type { DeadFilter, EndpointSpan, ReplayFilter, Span, Task, TaskCursor, TaskData } from '../domain/task.ts'
import type { DeliveryKey } from '../store/browsing.ts'
import type { Store } from '../store/store.ts'
import type { StepDone } from '../store/tasks.ts'

/** What one step looks at: a few milliseconds of the store's time. */
const rowsPerStep = 200
const messagesCounted = 1000
const applicationsPerStep = 50

/** What a step found to do, and where the next one goes on; without a cursor there is none. */
export interface Step {
  readonly replay: readonly DeliveryKey[]
  readonly purge: readonly DeliveryKey[]
  readonly cursor: TaskCursor | null
  data(done: StepDone): TaskData
}

/** Finds what the task has to do next. It only reads: the doing is one transaction of the store's. */
export function nextStep(store: Store, task: Task): Promise<Step> {
  const { work } = task
  switch (work.type) {
    case 'endpoint.recover':
      return recover(store, task, work.input)
    case 'endpoint.replay':
      return replayMissing(store, task, work.input)
    case 'endpoint.bulk-replay':
      return bulkReplay(store, task, work.input)
    case 'dead.replay':
      return walkDead(store, task, work.input, (found) => ({ replay: found, purge: [] }))
    case 'dead.purge':
      return walkDead(store, task, work.input, (found) => ({ replay: [], purge: found }))
    case 'application.stats':
      return countDestinations(store, task, work.input)
    case 'event-type.aggregate':
      return listSubscriptions(store, task)
  }
}

async function recover(store: Store, task: Task, span: EndpointSpan): Promise<Step> {
  const range = { ...keysOf(span), after: task.cursor?.[0] ?? null, order: 'ascending', limit: rowsPerStep } as const
  const letters = await store.listDeadOf(span.endpoint, range)
  const last = letters.at(-1)
  const cursor = letters.length < rowsPerStep || last === undefined ? null : [last.message]
  return { replay: letters, purge: [], cursor, data: counting(task, letters.length) }
}

async function replayMissing(store: Store, task: Task, span: EndpointSpan): Promise<Step> {
  const [endpoint] = await store.loadEndpoints([span.endpoint])
  const heads = endpoint === undefined ? [] : await messagesOf(store, task, span)
  const matcher = new Matcher(endpoint === undefined ? [] : [{ ...endpoint, endpoint: endpoint.key }])
  const wanted = heads.filter((head) => !head.expunged && matcher.match(head.eventType, head.channels).length > 0)
  const keys = wanted.map((head) => head.key)
  const accepted = new Set(await store.acceptedFor(span.endpoint, keys))
  const deliveries = keys.filter((key) => !accepted.has(key)).map((message) => ({ endpoint: span.endpoint, message }))
  const latest = await store.latestAttempts(deliveries)
  const missing = deliveries.filter((_, i) => latest[i] === undefined)
  return { replay: missing, purge: [], cursor: cursorBehind(heads, rowsPerStep), data: counting(task, heads.length) }
}

async function bulkReplay(store: Store, task: Task, span: EndpointSpan & ReplayFilter): Promise<Step> {
  const heads = await messagesOf(store, task, span)
  const deliveries = heads.map((head) => ({ endpoint: span.endpoint, message: head.key }))
  const latest = await store.latestAttempts(deliveries)
  const meant = deliveries.filter((_, i) => {
    const head = heads[i]
    return head !== undefined && meetsReplay(head, latest[i], span)
  })
  return { replay: meant, purge: [], cursor: cursorBehind(heads, rowsPerStep), data: counting(task, heads.length) }
}

async function walkDead(
  store: Store,
  task: Task,
  filter: DeadFilter,
  use: (found: DeliveryKey[]) => Pick<Step, 'replay' | 'purge'>,
): Promise<Step> {
  if (filter.message !== null) {
    const { letters, cursor } = await deadOfMessage(store, task, filter.message, filter)
    return {
      ...use(letters.filter((letter) => meetsDead(letter, filter))),
      cursor,
      data: counting(task, letters.length),
    }
  }
  const [diedAt = 0, endpoint = 0, message = 0] = task.cursor ?? []
  const letters = await store.listDead(task.app as number, {
    endpoint: filter.endpoint,
    from: filter.after,
    until: filter.before,
    after: task.cursor === null ? null : { diedAt, endpoint, message },
    order: 'ascending',
    limit: rowsPerStep,
  })
  const { eventTypes } = filter
  const heads = eventTypes === null ? [] : await store.loadHeads([...new Set(letters.map((letter) => letter.message))])
  const types = new Map(heads.map((head) => [head.key, head.eventType]))
  const found = letters.filter(
    (letter) =>
      meetsDead(letter, filter) && (eventTypes === null || eventTypes.includes(types.get(letter.message) ?? '')),
  )
  const last = letters.at(-1)
  const isLast = letters.length < rowsPerStep || last === undefined
  const cursor = isLast ? null : [last.diedAt, last.endpoint, last.message]
  return { ...use(found), cursor, data: counting(task, letters.length) }
}

/** The dead letters of one message, endpoint by endpoint: whatever died was tried. */
async function deadOfMessage(store: Store, task: Task, message: number, { endpoint, eventTypes }: DeadFilter) {
  const [head] = await store.loadHeads([message])
  if (head === undefined || eventTypes?.includes(head.eventType) === false) return { letters: [], cursor: null }
  const tried = endpoint === null ? await store.attemptedEndpoints(message) : [endpoint]
  const [after = -1] = task.cursor ?? []
  const rest = tried.filter((key) => key > after)
  const endpoints = rest.slice(0, rowsPerStep)
  const found = await Promise.all(endpoints.map((key) => store.findDead(key, message)))
  const cursor = rest.length > endpoints.length ? [endpoints.at(-1) as number] : null
  return { letters: found.filter((letter) => letter !== undefined), cursor }
}

function meetsDead({ reason, diedAt }: DeadLetter, filter: DeadFilter): boolean {
  return (filter.reason === null || reason === filter.reason) && diedAt >= filter.after && diedAt < filter.before
}

interface AppStats {
  readonly appId: string
  readonly appUid: string | null
  readonly messageDestinations: number
}

/** One part of one application's messages a step. The cursor is the application and the last message counted. */
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

function messagesOf(store: Store, task: Task, span: Span) {
  const range = { ...keysOf(span), after: task.cursor?.[0] ?? null, order: 'ascending', limit: rowsPerStep } as const
  return store.listMessages(task.app as number, range)
}

function keysOf({ since, until }: Span): { from: number; until: number } {
  return { from: firstKeyAt(since), until: Math.min(firstKeyAt(until), Number.MAX_SAFE_INTEGER) }
}

function cursorBehind(heads: readonly { readonly key: number }[], limit: number): TaskCursor | null {
  const last = heads.at(-1)
  return heads.length < limit || last === undefined ? null : [last.key]
}

/** Adds what a step looked at and did to what the task has counted so far. */
function counting({ data }: Task, scanned: number): Step['data'] {
  const { scanned: before = 0, replayed = 0, purged = 0 } = data as Readonly<Record<string, number>>
  return (done) => ({
    scanned: before + scanned,
    ...(done.replayed + replayed > 0 || 'replayed' in data ? { replayed: replayed + done.replayed } : {}),
    ...(done.purged + purged > 0 || 'purged' in data ? { purged: purged + done.purged } : {}),
  })
}

/** A step that changes nothing but what is known. */
function reading(data: TaskData, cursor: TaskCursor | null): Step {
  return { replay: [], purge: [], cursor, data: () => data }
}
