import type { Outcome } from './outcome.ts'

/**
 * The meaning of an outcome for its receiver's health. `unwell`: no answer, or 5xx. `crowded`: 429 without a time. `well`: an
 * answer, whether it accepts the message or not. `nothing`: a Retry-After, which the lane obeys, a 410, or no fault of the
 * receiver.
 */
export type HealthSignal = 'well' | 'unwell' | 'crowded' | 'nothing'

export function signalOf({
  code,
  status,
  retryAfterMs,
}: Pick<Outcome, 'code' | 'status' | 'retryAfterMs'>): HealthSignal {
  if (code === 'delivered' || code === 'redirected') return 'well'
  if (code === 'aborted' || code === 'internal' || code === 'untried') return 'nothing'
  if (code !== 'refused') return 'unwell'
  if ((status === 429 || status === 503) && retryAfterMs !== undefined) return 'nothing'
  if (status === 410) return 'nothing'
  if (status === 429) return 'crowded'
  return status >= 500 ? 'unwell' : 'well'
}
