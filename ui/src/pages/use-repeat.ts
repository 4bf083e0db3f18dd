import { useEffect, useRef } from 'preact/hooks'
import { repeat } from '../api/ask.ts'

/** Calls again and again while the component is shown; not at all without an interval. */
export function useRepeat(work: () => Promise<void>, everyMs: number | undefined): void {
  const latest = useRef(work)
  latest.current = work
  useEffect(() => (everyMs === undefined ? undefined : repeat(() => latest.current(), everyMs)), [everyMs])
}
