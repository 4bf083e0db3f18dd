import type { Outcome } from './outcome.ts'

/**
 * What an attempt's end says about its receiver. `unwell`: it gave no answer, or 5xx. `crowded`: it gets too much, and does
 * not say for how long. `well`: it answered; whether it wanted the message is another matter. `nothing`: it asked for
 * silence, which is obeyed elsewhere, is gone for good, or it was no fault of its own.
 */
export type Sign = 'well' | 'unwell' | 'crowded' | 'nothing'

export function signOf({ code, status, retryAfterMs }: Pick<Outcome, 'code' | 'status' | 'retryAfterMs'>): Sign {
  if (code === 'delivered' || code === 'redirected') return 'well'
  if (code === 'aborted' || code === 'internal' || code === 'untried') return 'nothing'
  if (code !== 'refused') return 'unwell'
  if ((status === 429 || status === 503) && retryAfterMs !== undefined) return 'nothing'
  if (status === 410) return 'nothing'
  if (status === 429) return 'crowded'
  return status >= 500 ? 'unwell' : 'well'
}
