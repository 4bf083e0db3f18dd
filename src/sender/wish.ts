import type { Wish } from '../domain/outcome.ts'

/** The wish that an HTTP status states: 410 no deliveries any more, 429 and 503 with a time silence, 429 a lower rate, 5xx relief. */
export function wishOf(status: number, retryAfterMs: number | undefined): Wish | undefined {
  if (status === 410) return 'gone'
  if ((status === 429 || status === 503) && retryAfterMs !== undefined) return 'silence'
  if (status === 429) return 'fewer'
  return status >= 500 ? 'relief' : undefined
}
