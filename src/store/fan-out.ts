import type { Publication } from './intake.ts'

/** A message for more endpoints than this is stored with a cursor, and its deliveries are queued afterwards. */
export const queuedAtOnce = 1000
/** Deliveries that one transaction queues in all, so that no group of wide messages holds the database for long. */
const queuedPerGroup = 20_000

/** Which messages of a group are to be expanded afterwards. */
export function wideOnes(publications: readonly Publication[]): boolean[] {
  let left = queuedPerGroup
  return publications.map(({ endpoints }) => {
    const wide = endpoints.length > queuedAtOnce || endpoints.length > left
    if (!wide) left -= endpoints.length
    return wide
  })
}
