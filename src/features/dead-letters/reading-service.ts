import { Type } from 'typebox'
import type { DeadLetterSummary, MessageSummary } from '../../domain/delivery.ts'
import { Turns } from '../../domain/turns.ts'
import { flag, instant, iso, whole } from '../../operations/fields.ts'
import type { Out } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import type { Order } from '../../store/messages.ts'
import type { Store } from '../../store/store.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import type { DeadFilter } from '../tasks/rules.ts'
import { meetsDead } from './rules.ts'
import type { DeadRange } from './store.ts'

/** Rows of an index that are counted, in some milliseconds. */
const countLimit = 100_000

/** Rows that are read where the index alone does not say which ones count, so many at a time. */
const readLimit = 10_000

const rowsAtOnce = 500

export const DeadCountOut = Type.Object({
  count: whole('Dead letters that match every field.'),
  more: flag(
    'Whether there may be more: counting stopped after 100,000, or after looking at 10,000 with `reason` or `event_types`.',
  ),
  before: instant(
    'Just after the newest of them died. With it as `before`, a replay or a purge takes none that dies later, not even one that dies again after its replay.',
  ),
})

/** Counts the dead letters of a filter that names no message. */
export async function countDead(
  services: Services,
  app: number | null,
  filter: DeadFilter,
): Promise<Out<typeof DeadCountOut>> {
  const { store, clock } = services
  const [newest] = await store.listDead(app, rangeOf(filter, null, 'descending', 1))
  const before = iso(newest === undefined ? Math.min(filter.before, clock.now()) : newest.diedAt + 1)
  if (filter.reason === null && filter.eventTypes === null) {
    const { endpoint, after: from, before: until } = filter
    const count = await store.countListed({ of: 'dead', app, endpoint, from, until }, countLimit)
    return { count, more: count === countLimit, before }
  }
  let count = 0
  let after: Parameters<typeof rangeOf>[1] = null
  for (let looked = 0; looked < readLimit; looked += rowsAtOnce) {
    await Turns.by(clock).next()
    const rows = await store.listDead(app, rangeOf(filter, after, 'descending', rowsAtOnce))
    count += (await describedLetters(store, rows)).filter(isMeant(filter)).length
    if (rows.length < rowsAtOnce) return { count, more: false, before }
    after = rows.at(-1) ?? null
  }
  return { count, more: true, before }
}

/** A dead letter with the things that a filter and an answer need of it. */
export interface Described {
  readonly row: DeadLetterSummary
  readonly message: MessageSummary | undefined
  readonly endpoint: Endpoint | undefined
}

/** Dead letters with their messages and endpoints. */
export async function describedLetters(store: Store, letters: readonly DeadLetterSummary[]): Promise<Described[]> {
  const [summaries, endpoints] = await Promise.all([
    store.loadSummaries([...new Set(letters.map(({ message }) => message))]),
    store.loadEndpoints([...new Set(letters.map(({ endpoint }) => endpoint))]),
  ])
  const messageOf = new Map(summaries.map((summary) => [summary.key, summary]))
  const endpointOf = new Map(endpoints.map((endpoint) => [endpoint.key, endpoint]))
  return letters.map((row) => ({ row, message: messageOf.get(row.message), endpoint: endpointOf.get(row.endpoint) }))
}

/** Chooses the dead letters that a filter means. */
export function isMeant(filter: DeadFilter): (one: Described) => boolean {
  return ({ row, message }) => meetsDead(row, message?.eventType, filter)
}

/** The list that holds the dead letters of a filter. */
export function rangeOf(filter: DeadFilter, after: DeadRange['after'], order: Order, limit: number): DeadRange {
  return { endpoint: filter.endpoint, from: filter.after, until: filter.before, after, order, limit }
}
