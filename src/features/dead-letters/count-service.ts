import { Type } from 'typebox'
import { Turns } from '../../domain/turns.ts'
import { flag, instant, iso, whole } from '../../operations/fields.ts'
import type { Parts } from '../../operations/parts.ts'
import type { Out } from '../../operations/route.ts'
import type { DeadFilter } from '../tasks/rules.ts'
import { describedLetters, meets, rangeOf } from './reading-service.ts'

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
  parts: Parts,
  app: number | null,
  filter: DeadFilter,
): Promise<Out<typeof DeadCountOut>> {
  const { store, clock } = parts
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
    count += (await describedLetters(store, rows)).filter((one) => meets(one, filter)).length
    if (rows.length < rowsAtOnce) return { count, more: false, before }
    after = rows.at(-1) ?? null
  }
  return { count, more: true, before }
}
