import type { ComponentChildren } from 'preact'
import { capital, words } from './text.ts'

/** Colour says one thing everywhere: good, wait, bad, or nothing to say. */
export type Tone = 'good' | 'wait' | 'bad' | 'info' | 'quiet'

const tones: Readonly<Record<string, Tone>> = {
  // Endpoints and lanes.
  active: 'good',
  throttled: 'wait',
  held: 'wait',
  failing: 'bad',
  circuit_open: 'bad',
  paused: 'quiet',
  disabled: 'quiet',
  closed: 'good',
  half_open: 'wait',
  open: 'bad',
  // Deliveries and attempts.
  success: 'good',
  delivered: 'good',
  pending: 'wait',
  sending: 'info',
  fail: 'bad',
  dead: 'bad',
  canceled: 'quiet',
  // Tasks, schedules and workers.
  running: 'info',
  finished: 'good',
  failed: 'bad',
  cancelled: 'quiet',
  published: 'good',
  skipped: 'quiet',
  alive: 'good',
  lapsed: 'bad',
  left: 'quiet',
  // Sources.
  refusing: 'wait',
  no_secret: 'wait',
  // Findings and alerts.
  firing: 'bad',
  resolved: 'good',
  critical: 'bad',
  warning: 'wait',
}

function toneOf(state: string): Tone {
  return tones[state] ?? 'quiet'
}

/** A state in one word, with a dot in the colour of what it means. */
export function Pill({ state, label, tone }: { state: string; label?: string; tone?: Tone }) {
  return (
    <span class="pill" data-tone={tone ?? toneOf(state)}>
      {label ?? capital(words(state))}
    </span>
  )
}

/** A short fixed text, such as an event type or a scope. */
export function Tag({ children }: { children: ComponentChildren }) {
  return <span class="tag">{children}</span>
}

/** The status code of an answer; an attempt without an answer says so. */
export function Status({ code }: { code: number }) {
  const tone: Tone = code >= 200 && code < 300 ? 'good' : code === 429 ? 'wait' : 'bad'
  return (
    <span class="status" data-tone={tone}>
      {code === 0 ? 'none' : code}
    </span>
  )
}
