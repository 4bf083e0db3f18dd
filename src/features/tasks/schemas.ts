import { Type } from 'typebox'
import type { EpochMs } from '../../domain/clock.ts'
import { keySkewMs } from '../../domain/ids.ts'
import { type Caller, seesErasures } from '../../operations/access.ts'
import { createdAt, id, integer, iso, maybe, nullable, updatedAt, whole } from '../../operations/fields.ts'
import { byId, type PageQuery, walk } from '../../operations/page.ts'
import type { Out } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import { type RequestPart, readInstants, refuseIf } from '../../operations/validate.ts'
import type { Store } from '../../store/store.ts'
import { type AcceptedSpan, type Task, type TaskStatus, type TaskWork, taskStatuses, taskTypes } from './rules.ts'

/** The states that Svix's tasks have; its libraries refuse an answer with another. */
export const svixStatuses = ['running', 'finished', 'failed'] as const

/** Svix's word for a state: a paused task has yet to end, and a cancelled task did not fail. */
export function svixStatus(status: TaskStatus): (typeof svixStatuses)[number] {
  return status === 'paused' ? 'running' : status === 'cancelled' ? 'finished' : status
}

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
  part: RequestPart = 'body',
  empty?: 'may be empty',
): AcceptedSpan {
  const { since = 0, until = now + keySkewMs } = readInstants(part, { since: input.since, until: input.until })
  const problem = { at: [part, 'since'], message: 'must be before until', type: 'range' }
  refuseIf(since >= until && empty === undefined ? [problem] : [])
  return { since: Math.max(0, Math.min(since, until)), until }
}

/** A task may name a thousand letters: 250 of them take 12 ms to read on SQLite, and ten callers together took a turn of 122 ms. */
const tasksAtOnce = 50

export function pageOfTasks(
  { store, clock }: Services,
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
