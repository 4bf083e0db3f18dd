import { type Outcome, shortWaitMs } from './once.ts'

/** Whether a message is handled for the first time. */
export type Remembered = 'first' | 'duplicate' | 'busy'

/** The outcome of a message that another caller handled or handles. */
export function notFirst(remembered: 'duplicate' | 'busy'): Outcome<never> {
  return remembered === 'duplicate' ? { outcome: 'duplicate' } : { outcome: 'busy', retryAfterMs: shortWaitMs }
}

/** Rows that are deleted at a time, and after how many handled messages: twice as many rows go as come. */
export const pruneRows = 100
const pruneAfter = 50

/** Says at every fiftieth call that expired rows are to be deleted. */
export function pruneEvery(): () => boolean {
  let calls = 0
  return () => ++calls % pruneAfter === 0
}

/** The name of a table, which becomes part of statements. Throws RangeError unless it is a plain name. */
export function tableName(name = 'sluice_handled'): string {
  if (/^[a-z_][a-z0-9_]{0,47}$/i.test(name)) return name
  throw new RangeError(`The table name ${JSON.stringify(name)} must be letters, digits and underscores, 48 at most.`)
}
