import { type Static, Type } from 'typebox'
import { AppError, noSuch } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import { keySkewMs } from '../../domain/ids.ts'
import { admin, type Caller, read, seesErasures, view } from '../../operations/access.ts'
import {
  closed,
  createdAt,
  dateTime,
  described,
  id,
  integer,
  iso,
  listOf,
  maybe,
  nullable,
  optional,
  updatedAt,
  whole,
} from '../../operations/fields.ts'
import { isRef } from '../../operations/lookup.ts'
import { byId, PageQuery, walk } from '../../operations/page.ts'
import type { Parts } from '../../operations/parts.ts'
import { type Noun, type Out, route } from '../../operations/route.ts'
import { type Part, readInstants, refuseIf } from '../../operations/validate.ts'
import type { Store } from '../../store/store.ts'
import type { TaskWork } from './rules.ts'
import { type Span, type Task, type TaskCommand, type TaskStatus, taskStatuses, taskTypes } from './rules.ts'

/** The states that Svix's tasks have; its libraries refuse an answer with another. */
const svixStatuses = ['running', 'finished', 'failed'] as const

/** Svix's word for a state: a paused task has yet to end, and a cancelled task did not fail. */
function svixStatus(status: TaskStatus): (typeof svixStatuses)[number] {
  return status === 'paused' ? 'running' : status === 'cancelled' ? 'finished' : status
}

const TaskQuery = Type.Object({
  ...PageQuery.properties,
  status: optional(Type.Enum([...svixStatuses]), 'Only tasks with this status.'),
  state: optional(
    Type.Enum([...taskStatuses]),
    'Only tasks with this state; unlike `status`, it includes `paused` and `cancelled`.',
  ),
  task: optional(Type.Enum([...taskTypes]), 'Kind of work.'),
})

/** A task that was just begun. */
export const TaskStartedOut = Type.Object({
  id,
  status: Type.Enum([...svixStatuses], { description: 'Status of the task.' }),
  task: Type.Enum([...taskTypes], { description: 'Kind of work.' }),
  updatedAt,
})

export const BackgroundTaskOut = Type.Object({
  ...TaskStartedOut.properties,
  state: Type.Enum([...taskStatuses], { description: 'As `status`, but also `paused` and `cancelled`.' }),
  perSecond: nullable(whole('Largest number of deliveries per second; null for unlimited.')),
  createdAt,
  data: Type.Object(
    {},
    {
      additionalProperties: true,
      description:
        'Counts while it runs: `scanned` of `total` looked at, or of `totalAtLeast`; `unfiltered` messages were too large for the filter. The result when the task has ended. Empty for an erasure of a person, unless the key has the scope `admin`.',
    },
  ),
})

function toStartedOut({ id, status, work, updatedAt }: Task): Out<typeof TaskStartedOut> {
  return { id, status: svixStatus(status), task: work.type, updatedAt: iso(updatedAt) }
}

export function toTaskOut(task: Task, caller: Caller | null): Out<typeof BackgroundTaskOut> {
  const { status: state, work, createdAt } = task
  const data = work.type === 'subject.erase' && !seesErasures(caller) ? {} : task.data
  const perSecond = 'perSecond' in work.input ? (work.input.perSecond ?? null) : null
  return { ...toStartedOut(task), state, perSecond, createdAt: iso(createdAt), data }
}

/** How many deliveries a second a replay queues at most. The endpoint's own limits hold besides. */
export const perSecond = maybe(
  integer(1, 100_000),
  'Largest number of deliveries queued per second; unlimited by default.',
)

/** The time a request means, up to now without `until`. Throws AppError when it is empty. */
export function readSpan(
  input: { readonly since: string; readonly until?: string | null },
  now: EpochMs,
  part: Part = 'body',
  empty?: 'may be empty',
): Span {
  const { since = 0, until = now + keySkewMs } = readInstants(part, { since: input.since, until: input.until })
  const problem = { at: [part, 'since'], message: 'must be before until', type: 'range' }
  refuseIf(since >= until && empty === undefined ? [problem] : [])
  return { since: Math.max(0, Math.min(since, until)), until }
}

/** A task may name a thousand letters: 250 of them take 12 ms to read on SQLite, and ten callers together took a turn of 122 ms. */
const tasksAtOnce = 50

export function pageOfTasks(
  { store, clock }: Parts,
  query: PageQuery,
  isWanted: (task: Task) => boolean,
  keepsAll = false,
) {
  return walk(clock, query, {
    read: (after: number | null, order, limit) => store.listTasks({ after, order, limit }),
    keep: async (rows) => rows.filter(isWanted).map((row) => ({ row })),
    keepsAll,
    rowsAtOnce: tasksAtOnce,
    ...byId('qtask'),
  })
}

/** Starts a task of an application, or of none. `data` are its counts before it begins. */
export async function startTask(store: Store, app: number | null, work: TaskWork, data: Task['data']) {
  return toStartedOut(await store.createTask({ app, work, data }))
}

function isWanted({ status, state, task: type }: Static<typeof TaskQuery>) {
  return (task: Task) =>
    (status === undefined || svixStatus(task.status) === status) &&
    (state === undefined || task.status === state) &&
    (type === undefined || task.work.type === type)
}

function commandRoute(command: TaskCommand, summary: string, description?: string) {
  return route(`POST /background-task/:task/${command}`, admin, {
    id: `v1.background-task.${command}`,
    summary,
    ...(description && { description }),
    answers: { 200: BackgroundTaskOut },
    handle: async ({ task: { id }, request }, { store }) => {
      const task = await store.commandTask(id, command)
      if (task === undefined) throw noSuch('task', id)
      if (task === 'ended') throw new AppError('conflict', 'The task has ended.')
      return toTaskOut(task, request.caller)
    },
  })
}

export const backgroundTasks = {
  tag: 'Background Task',
  description: 'Work that continues after the request that started it, also over restarts.',
  schemas: { BackgroundTaskOut, TaskStartedOut },
  routes: [
    route('GET /background-task', read, {
      id: 'v1.background-task.list',
      summary: 'List background tasks',
      query: TaskQuery,
      answers: { 200: listOf(BackgroundTaskOut) },
      handle: async ({ query, request }, parts) => {
        const { status, state, task: type } = query
        const keepsAll = status === undefined && state === undefined && type === undefined
        const page = await pageOfTasks(parts, query, isWanted(query), keepsAll)
        return { ...page, data: page.data.map(({ row }) => toTaskOut(row, request.caller)) }
      },
    }),
    route('GET /background-task/:task', read, {
      id: 'v1.background-task.get',
      summary: 'Get a background task',
      answers: { 200: BackgroundTaskOut },
      handle: ({ task, request }) => toTaskOut(task, request.caller),
    }),
    route('GET /app/:app/background-task/:task', view, {
      id: 'v1.background-task.get-of-application',
      summary: 'Get a background task of an application',
      description: 'Keys and portal tokens of the application follow their replays with it.',
      answers: { 200: BackgroundTaskOut },
      handle: ({ task, request }) => toTaskOut(task, request.caller),
    }),
    commandRoute(
      'pause',
      'Pause a background task',
      'The task pauses until it is resumed, also over restarts. Deliveries that it has queued are sent.',
    ),
    commandRoute('resume', 'Resume a background task'),
    commandRoute('cancel', 'End a background task', 'Work that is done stays done.'),
  ],
} satisfies Noun

const AppUsageStatsIn = Type.Object(
  {
    since: described(dateTime, 'From this instant on, RFC 3339.'),
    until: described(dateTime, 'Before this instant, RFC 3339; now by default.'),
    appIds: maybe(
      Type.Array(Type.String({ maxLength: 256 }), {
        minItems: 1,
        maxItems: 1000,
        description: 'Applications, by id or uid; null for all.',
      }),
    ),
  },
  closed,
)

const AppUsageStatsOut = Type.Object({
  ...TaskStartedOut.properties,
  unresolvedAppIds: Type.Array(Type.String()),
})

export const statistics = {
  tag: 'Statistics',
  description: 'Counts over applications, as background tasks.',
  schemas: { AppUsageStatsIn, AppUsageStatsOut },
  routes: [
    route('POST /stats/usage/app', admin, {
      id: 'v1.statistics.aggregate-app-stats',
      summary: 'Count deliveries per application, in the background',
      body: AppUsageStatsIn,
      answers: { 202: AppUsageStatsOut },
      handle: async ({ body }, { store, clock }) => {
        const span = readSpan(body, clock.now())
        const refs = body.appIds ?? null
        const found = await Promise.all(
          (refs ?? []).map((ref) => (isRef(ref) ? store.findApplication(ref) : undefined)),
        )
        const unresolvedAppIds = (refs ?? []).filter((_, i) => found[i] === undefined)
        const apps = refs && [...new Set(found.flatMap((app) => (app === undefined ? [] : [app.key])))]
        const problem = { at: ['body', 'appIds'], message: 'names no application', type: 'unknown' }
        refuseIf(apps?.length === 0 ? [problem] : [])
        const work = { type: 'application.stats', input: { ...span, apps } } as const
        return { ...(await startTask(store, null, work, { appStats: [] })), unresolvedAppIds }
      },
    }),
    route('PUT /stats/usage/event-types', admin, {
      id: 'v1.statistics.aggregate-event-types',
      summary: "List the event types that each application's endpoints subscribe to, in the background",
      answers: { 202: TaskStartedOut },
      handle: (_call, { store }) =>
        startTask(store, null, { type: 'event-type.aggregate', input: {} }, { event_types: [] }),
    }),
  ],
} satisfies Noun
