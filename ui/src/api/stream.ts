import { expectBeats, heard } from './heard.ts'

/** An event of the server's stream, or a change of its connection. */
export type StreamEvent =
  | { readonly kind: 'open' }
  | { readonly kind: 'lost' }
  | { readonly kind: 'event'; readonly name: string; readonly data: string }

/** A browser connects again by itself after a lost connection, but not after a refusal. */
const afterRefusalMs = 5000
const names = ['beat', 'overview', 'lane', 'attempt']

/**
 * Follows a stream, and stops when the answer is called. Windows of one browser share a connection, because a browser opens
 * six to a server and no more: the window that has the lock reads the stream and tells the others, and when it goes the next
 * one has the lock. Without locks, which need https or localhost, each window has a connection of its own.
 */
export function followStream(url: string, on: (event: StreamEvent) => void): () => void {
  const beats = expectBeats()
  const take = (event: StreamEvent): void => {
    if (event.kind === 'event') heard()
    on(event)
  }
  const locks: LockManager | undefined = navigator.locks
  if (locks === undefined) {
    const close = connect(url, take)
    return () => {
      close()
      beats()
    }
  }
  const name = `sluice ${url}`
  const channel = new BroadcastChannel(name)
  channel.onmessage = ({ data }) => take(data as StreamEvent)
  const stop = new AbortController()
  const lead = (): Promise<void> =>
    new Promise((resolve) => {
      const close = connect(url, (event) => {
        take(event)
        channel.postMessage(event)
      })
      stop.signal.addEventListener('abort', () => {
        close()
        resolve()
      })
    })
  // Rejects when it is stopped before its turn.
  locks.request(name, { signal: stop.signal }, () => (stop.signal.aborted ? undefined : lead())).catch(() => {})
  return () => {
    stop.abort()
    channel.close()
    beats()
  }
}

function connect(url: string, on: (event: StreamEvent) => void): () => void {
  let source: EventSource
  let timer: ReturnType<typeof setTimeout> | undefined
  function open(): void {
    source = new EventSource(url)
    source.onopen = () => on({ kind: 'open' })
    source.onerror = () => {
      on({ kind: 'lost' })
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(open, afterRefusalMs)
    }
    for (const name of names) {
      source.addEventListener(name, ({ data }) => on({ kind: 'event', name, data: data as string }))
    }
  }
  open()
  return () => {
    clearTimeout(timer)
    source.close()
  }
}
