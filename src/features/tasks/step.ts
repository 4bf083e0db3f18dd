import { firstKeyAt } from '../../domain/ids.ts'
import type { DeliveryKey } from '../../store/messages.ts'
import type { Store } from '../../store/store.ts'
import type { AuditEntry } from '../audit/rules.ts'
import type { Erasure } from '../erasure/store.ts'
import {
  type AcceptedSpan,
  type Paced,
  queuedPerStep,
  restAfter,
  type Task,
  type TaskCursor,
  type TaskData,
} from './rules.ts'
import type { StepDone } from './store.ts'

/** Rows that one step reads: a few milliseconds of the store's time. */
export const rowsPerStep = 200

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
export function walk<Row>(task: Task, pace: Paced, rows: readonly Row[], walk: Walk<Row>): Step {
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

export function messagesOf(store: Store, task: Task, span: AcceptedSpan, limit = rowsPerStep) {
  const range = { ...keysOf(span), after: task.cursor?.[0] ?? null, order: 'ascending', limit } as const
  return store.listMessages(task.app as number, range)
}

export function keysOf({ since, until }: AcceptedSpan): { from: number; until: number } {
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
