import type { Item } from '../../cli/client.ts'
import { text } from '../../cli/table.ts'
import { describeTimings, type Timings } from '../../domain/outcome.ts'

export function statusText({ statusText: status, coalescedInto }: Item): string {
  return coalescedInto == null ? text(status) : `coalesced into ${text(coalescedInto)}`
}

/** The colour of a delivery's status. */
export function statusColour({ statusText, coalescedInto }: Item): 'green' | 'red' | 'yellow' {
  if (statusText === 'success') return 'green'
  if (coalescedInto != null) return 'yellow'
  return statusText === 'fail' ? 'red' : 'yellow'
}

/** Svix's number for an attempt that failed. */
export const failedStatus = 2

/** The split of an attempt's time in words; '–' when it is unknown. */
export function timingsOf({ timings }: Item): string {
  return timings == null ? '–' : describeTimings(timings as unknown as Timings) || '–'
}

/** The HTTP status of the response; '–' when there was none. */
export function statusCode({ responseStatusCode }: Item): string {
  return responseStatusCode === 0 ? '–' : text(responseStatusCode)
}

/** The outcome of an attempt, with its error. */
export function outcome({ code, error, statusText }: Item): string {
  return error == null || error === '' ? text(code ?? statusText) : `${text(code ?? statusText)}: ${text(error)}`
}
