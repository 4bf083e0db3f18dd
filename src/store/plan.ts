import type { Publication, Special } from './publishing.ts'

/**
 * How the deliveries of a message differ from plain ones, by endpoint. It is stored with the message, for deliveries that
 * are queued later or once more.
 */
export type Plan = Readonly<Record<string, Planned>>
export type Planned = Omit<Special, 'endpoint'>

/** The plan of a delivery that has none. */
export const plainly: Planned = {}

/** Whether a publication is just its message and one row in the queue of each endpoint. */
export function isPlain({ expiresInMs, orderingKey, special, variants }: Publication): boolean {
  return expiresInMs == null && orderingKey == null && !special?.length && !variants?.length
}

/** How long after it is stored a publication is due, in whole milliseconds. */
export function delayOf({ delayMs }: Publication): number {
  return Math.max(0, Math.ceil(delayMs))
}

/** Whether it is plain, and its deliveries are due as soon as it is stored. */
export function isFresh(publication: Publication): boolean {
  return delayOf(publication) === 0 && isPlain(publication)
}

/**
 * The publication without coalescing, for a transaction of the caller: it may stay open for long, and would block every
 * other publish of the same kind.
 */
export function uncoalesced(publication: Publication): Publication {
  if (!publication.special?.some(({ coalesce }) => coalesce !== undefined)) return publication
  return { ...publication, special: publication.special.map(({ coalesce: _coalesce, ...rest }) => rest) }
}

/**
 * Endpoints that keep an order. Their deliveries are queued with the message, even when it is wide: otherwise messages
 * that are accepted meanwhile would be sent first.
 */
export function queuedInOrder({ special = [] }: Publication): number[] {
  return special.flatMap(({ endpoint, orderKey }) => (orderKey === undefined ? [] : [endpoint]))
}

/** The fields of a planned delivery; undefined where it has none. */
type PlannedFields = { readonly [Field in keyof Planned]-?: Planned[Field] | undefined }

/**
 * The plan that is stored with a message, as JSON. Coalescing matters only to a wide message, whose deliveries are not queued
 * yet. Null when no delivery needs a plan. Written as text: 25,000 entries took 20 ms as one object with that many keys.
 */
export function keptPlan(special: readonly Special[] = [], isWide: boolean): string | null {
  const entries: string[] = []
  for (const { endpoint, drop, coalesce, orderKey, variant, direct } of special) {
    const kept: PlannedFields = { drop, coalesce: isWide ? coalesce : undefined, orderKey, variant, direct }
    const text = JSON.stringify(kept)
    if (text !== '{}') entries.push(`"${endpoint}":${text}`)
  }
  return entries.length === 0 ? null : `{${entries.join(',')}}`
}

/** A message for more endpoints than this is stored with a cursor, and its deliveries are queued afterwards. */
export const queuedAtOnce = 1000

/** Whether a message is wide in any group. */
export function isAlwaysWide({ endpoints }: Publication): boolean {
  return endpoints.length > queuedAtOnce
}

/**
 * The work that one transaction does at most to queue deliveries, in plain ones. 10,000 keep SQLite's process busy for 15 ms; the
 * messages of a batch of 500 for 50 endpoints take 20 ms more. Others wait for all of it, 50 ms at most.
 */
const queuedPerGroup = 10_000
/** The cost of a delivery that is not plain, beyond that of a plain one. A dead letter is two statements, and a window five. */
const extraCost = { drop: 4, coalesce: 9, order: 1, variant: 1 } as const

/** The cost of queueing the deliveries of a publication, in plain ones. */
function costOf({ endpoints, special = [] }: Publication): number {
  let cost = endpoints.length
  for (const { drop, coalesce, orderKey } of special) {
    if (drop !== undefined) cost += extraCost.drop
    else if (coalesce !== undefined) cost += extraCost.coalesce
    else cost += orderKey === undefined ? extraCost.variant : extraCost.order
  }
  return cost
}

/**
 * Which messages of a group are wide: their deliveries are queued afterwards. Call it once for each group, before the group is
 * stored: for the accepted messages alone, the answer may differ.
 */
export function wideOnes(publications: readonly Publication[]): boolean[] {
  let left = queuedPerGroup
  return publications.map((publication) => {
    const cost = costOf(publication)
    const isWide = isAlwaysWide(publication) || cost > left
    if (!isWide) left -= cost
    return isWide
  })
}
