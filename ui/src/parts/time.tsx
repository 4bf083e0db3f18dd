import { signal } from '@preact/signals'
import { age } from '../../../src/domain/phrases.ts'
import { localTime, relative, span } from './text.ts'

/** The time, each second. Components that read it are shown again each second, and no others. */
export const now = signal(Date.now())
setInterval(() => {
  if (document.visibilityState === 'visible') now.value = Date.now()
}, 1000)
document.addEventListener('visibilitychange', () => {
  now.value = Date.now()
})

type Instant = string | number | null | undefined

export function toMs(at: Instant): number | undefined {
  if (at === null || at === undefined) return undefined
  const ms = typeof at === 'number' ? at : Date.parse(at)
  return Number.isNaN(ms) ? undefined : ms
}

/** An instant relative to now, with the exact one on hover: `3 min ago`, `in 5 s`. */
export function Ago({ at, none = '–' }: { at: Instant; none?: string }) {
  const ms = toMs(at)
  if (ms === undefined) return <span class="faint">{none}</span>
  // A server's clock may be a little ahead of the browser's: an event of the past never reads as the future.
  const shown = ms > now.value && ms - now.value < 2000 ? now.value : ms
  return (
    <time dateTime={new Date(ms).toISOString()} title={localTime(ms)}>
      {relative(shown, now.value)}
    </time>
  )
}

/** How long ago in one unit: `6 min`. */
export function Age({ at, none = '–' }: { at: Instant; none?: string }) {
  const ms = toMs(at)
  if (ms === undefined) return <span class="faint">{none}</span>
  return (
    <time dateTime={new Date(ms).toISOString()} title={localTime(ms)}>
      {age(Math.max(0, now.value - ms))}
    </time>
  )
}

/** A time span that grows, or shrinks to an instant: `2 min 10 s`. */
export function Since({ at, none = '–' }: { at: Instant; none?: string }) {
  const ms = toMs(at)
  if (ms === undefined) return <span class="faint">{none}</span>
  return (
    <time dateTime={new Date(ms).toISOString()} title={localTime(ms)}>
      {span(Math.max(0, Math.floor(Math.abs(now.value - ms) / 1000) * 1000))}
    </time>
  )
}
