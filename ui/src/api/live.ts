import { useEffect, useState } from 'preact/hooks'
import { streamQuery, urlOf } from './call.ts'
import type { LaneOut, LiveAttemptOut, LiveOverviewOut } from './schema.ts'
import { followStream, type StreamEvent } from './stream.ts'

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

/** Follows the server, or one endpoint, while the component is shown and the page is in front. */
export function useLive(endpoint?: { readonly app: string; readonly endpoint: string }): Live {
  const [live, setLive] = useState<Live>(nothing)
  const own = streamQuery()
  const url = own && urlOf('/live', {}, { ...endpoint, ...own })

  useEffect(() => {
    let stop: (() => void) | undefined
    setLive(nothing)

    /** A page in the background needs no stream, and a server has few of them. */
    function follow(): void {
      stop?.()
      stop = undefined
      if (url === undefined || document.visibilityState !== 'visible') return
      stop = followStream(url, (event) => setLive((before) => after(before, event)))
    }

    follow()
    document.addEventListener('visibilitychange', follow)
    return () => {
      document.removeEventListener('visibilitychange', follow)
      stop?.()
    }
  }, [url])
  return live
}

function after(before: Live, event: StreamEvent): Live {
  if (event.kind !== 'event') return { ...before, isConnected: event.kind === 'open' }
  const live = before.isConnected ? before : { ...before, isConnected: true }
  if (event.name === 'beat') return live
  const value = JSON.parse(event.data)
  if (event.name === 'overview') return { ...live, overview: value }
  if (event.name === 'lane') return { ...live, lane: value }
  if (live.attempts.some(({ id }) => id === value.id)) return live
  return { ...live, attempts: [value, ...live.attempts].slice(0, attemptsKept) }
}
