import { useEffect, useRef } from 'preact/hooks'
import { repeat } from '../api/ask.ts'
import { isDeleting } from '../api/call.ts'

/** Calls again and again while the component is shown; not at all without an interval. */
export function useRepeat(work: () => Promise<void>, everyMs: number | undefined): void {
  const latest = useRef(work)
  latest.current = work
  useEffect(() => (everyMs === undefined ? undefined : repeat(() => latest.current(), everyMs)), [everyMs])
}

/** News that come in a burst are one. */
const burstMs = 300

/** Calls soon after the id of the newest thing has changed. */
export function useNews(work: () => Promise<void>, newest: string | undefined): void {
  const latest = useRef(work)
  latest.current = work
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => {
    if (newest === undefined || timer.current !== undefined) return
    timer.current = setTimeout(() => {
      timer.current = undefined
      if (!isDeleting()) void latest.current()
    }, burstMs)
  }, [newest])
  useEffect(() => () => clearTimeout(timer.current), [])
}
