/** Figures and names as the pages write them. */

import { age, latency } from '../../../src/domain/phrases.ts'

const whole = new Intl.NumberFormat('en')
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 })

/** `1,204`, and from ten thousand on `12.4K`. */
export function figure(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–'
  if (Math.abs(value) >= 10_000) return short.format(value)
  return whole.format(Math.round(value * 10) / 10)
}

/** `1,204` in full. */
export function exact(value: number): string {
  return whole.format(value)
}

/** How many wait: `7,471`, or `about 7,500` when the number is not exact. */
export function waitingFigure({ total, isExact }: { readonly total: number; readonly isExact: boolean }): string {
  return isExact || total < 100 ? exact(total) : `about ${exact(Number(total.toPrecision(2)))}`
}

/** `99.8 %`; a share that is not quite all never reads as 100 %. */
export function share(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–'
  const percent = value * 100
  if (percent > 99.9 && percent < 100) return '99.9 %'
  return `${percent >= 99.95 || percent === 0 ? percent.toFixed(0) : percent.toFixed(1)} %`
}

/** `3.2/s`, `120/s`. */
export function perSecond(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–'
  if (value !== 0 && value < 0.1) return `${(value * 60).toPrecision(2)}/min`
  return `${value >= 100 ? figure(Math.round(value)) : Number(value.toFixed(1))}/s`
}

/** A duration in one or two units: `70 ms`, `1.2 s`, `45 s`, `2 min 10 s`, `3 h 5 min`, `2 d 4 h`. */
export function span(ms: number | null | undefined): string {
  return ms === null || ms === undefined || Number.isNaN(ms) ? '–' : latency(ms)
}

/** A duration in one unit, where there is little room: `70 ms`, `1.2 s`, `1.5 min`. */
export function brief(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || ms < 59_500) return span(ms)
  const [unitMs, name] = ms < 3_570_000 ? [60_000, 'min'] : ms < 85_680_000 ? [3_600_000, 'h'] : [86_400_000, 'd']
  return `${Number((ms / unitMs).toFixed(1))} ${name}`
}

/** `in 5 s`, `3 min ago`, `now`. */
export function relative(at: number, now: number): string {
  const ms = at - now
  if (Math.abs(ms) < 1000) return 'now'
  return ms > 0 ? `in ${age(ms)}` : `${age(-ms)} ago`
}

/** `2026-11-16 05:25:26.123`, in the reader's time zone. */
export function localTime(at: number): string {
  const date = new Date(at)
  const local = new Date(at - date.getTimezoneOffset() * 60_000)
  return local.toISOString().slice(0, 23).replace('T', ' ')
}

/** `1.2 kB`. */
export function bytes(value: number): string {
  if (value < 1000) return `${value} B`
  return value < 1e6 ? `${(value / 1000).toPrecision(3)} kB` : `${(value / 1e6).toPrecision(3)} MB`
}

/** `1 delivery`, `1,204 deliveries`. */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${exact(n)} ${n === 1 ? one : many}`
}

/** `circuit_open` → `circuit open`; `throttlePeriodSeconds` → `throttle period seconds`. */
export function words(name: string): string {
  return name
    .replaceAll(/[_.-]/g, ' ')
    .replaceAll(/([a-z])([A-Z])/g, (_, a: string, b: string) => `${a} ${b.toLowerCase()}`)
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** The part of a URL that tells endpoints apart: host and path, without the scheme. */
export function shortUrl(url: string): string {
  return url.replace(/^https?:\/\//, '').replace(/\/$/, '')
}
