import { useEffect, useState } from 'preact/hooks'
import { streamQuery, urlOf } from './call.ts'
import type { LaneOut, LiveAttemptOut, LiveOverviewOut } from './schema.ts'

/** The latest events of the server's stream. */
export interface Live {
  readonly isConnected: boolean
  readonly overview: LiveOverviewOut | undefined
  /** The newest first. */
  readonly attempts: readonly LiveAttemptOut[]
  readonly lane: LaneOut | undefined
}

const nothing: Live = { isConnected: false, overview: undefined, attempts: [], lane: undefined }
const attemptsKept = 60
/** A browser connects again by itself after a lost connection, but not after a refusal. */
const afterRefusalMs = 5000

/** Follows the server, or one endpoint, while the component is shown and the page is in front. */
export function useLive(endpoint?: { readonly app: string; readonly endpoint: string }): Live {
  const [live, setLive] = useState<Live>(nothing)
  const own = streamQuery()
  const url = own && urlOf('/live', {}, { ...endpoint, ...own })

  useEffect(() => {
    let source: EventSource | undefined
    let timer: ReturnType<typeof setTimeout> | undefined
    setLive(nothing)

    function open(): void {
      if (url === undefined) return
      source = new EventSource(url)
      source.onopen = () => setLive((before) => ({ ...before, isConnected: true }))
      source.onerror = () => {
        setLive((before) => ({ ...before, isConnected: false }))
        if (source?.readyState === EventSource.CLOSED) timer = setTimeout(open, afterRefusalMs)
      }
      const on = <T>(name: string, take: (before: Live, value: T) => Live) =>
        source?.addEventListener(name, ({ data }) => {
          const value = JSON.parse(data as string) as T
          setLive((before) => take({ ...before, isConnected: true }, value))
        })
      on<LiveOverviewOut>('overview', (before, overview) => ({ ...before, overview }))
      on<LaneOut>('lane', (before, lane) => ({ ...before, lane }))
      on<LiveAttemptOut>('attempt', (before, attempt) => {
        if (before.attempts.some(({ id }) => id === attempt.id)) return before
        return { ...before, attempts: [attempt, ...before.attempts].slice(0, attemptsKept) }
      })
    }

    function close(): void {
      clearTimeout(timer)
      source?.close()
      source = undefined
    }

    /** A page in the background needs no stream, and a server has few of them. */
    function onVisibility(): void {
      close()
      if (document.visibilityState === 'visible') open()
    }

    if (document.visibilityState === 'visible') open()
    document.addEventListener('visibilitychange', onVisibility)
    return () => {
      document.removeEventListener('visibilitychange', onVisibility)
      close()
    }
  }, [url])
  return live
}
