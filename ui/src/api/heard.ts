import { signal } from '@preact/signals'

/** A server that is well sends a beat each second on a stream, and answers a page's questions within milliseconds. */
const silentMs = 4000

/**
 * Since when the server has not been heard, as an instant; undefined while it answers. Figures on the page are as old as that.
 * A hung server keeps its connections open and closes none, so only the clock shows it.
 */
export const silentSince = signal<number | undefined>(undefined)

let heardAt = Date.now()
let streams = 0
/** When requests without an answer began. */
const asking = new Set<{ readonly at: number }>()

/** The server was heard: an answer of any status, or an event. */
export function heard(): void {
  heardAt = Date.now()
  if (silentSince.value !== undefined) silentSince.value = undefined
}

/** A request begins; the answer ends it, with whether the server answered. */
export function ask(): (answered: boolean) => void {
  const request = { at: Date.now() }
  asking.add(request)
  return (answered) => {
    asking.delete(request)
    if (answered) heard()
    else silentSince.value ??= heardAt
  }
}

/** A stream is expected to beat, until the answer is called. */
export function expectBeats(): () => void {
  streams++
  // Before its first event a stream has as long as later.
  heardAt = Date.now()
  return () => {
    streams--
  }
}

setInterval(() => {
  const now = Date.now()
  if (document.visibilityState !== 'visible') {
    // Browsers hold back what a hidden page does.
    heardAt = now
    return
  }
  if (silentSince.value !== undefined || now - heardAt <= silentMs) return
  const asksLong = [...asking].some(({ at }) => now - at > silentMs)
  if (streams > 0 || asksLong) silentSince.value = heardAt
}, 500)
