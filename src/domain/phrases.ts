import type { EpochMs } from './clock.ts'

/** An instant for the terminal: to the second, in UTC, with its distance from now. */
export function moment(at: EpochMs, now: EpochMs): string {
  const text = new Date(at).toISOString()
  const isNear = Math.abs(at - now) < 12 * 3_600_000
  const clock = `${isNear ? text.slice(11, 19) : text.slice(0, 19).replace('T', ' ')} UTC`
  return `${clock} (${at >= now ? `in ${span(at - now)}` : `${span(now - at)} ago`})`
}

/** A duration in one or two units: `0.3 s`, `45 s`, `2 min 10 s`, `3 h 5 min`, `2 d 4 h`. */
export function span(ms: number): string {
  if (ms < 9950) return `${(Math.round(ms / 100) / 10).toString()} s`
  const seconds = Math.round(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600) return two(seconds, 60, 'min', 1, 's')
  return seconds < 86_400 ? two(seconds, 3600, 'h', 60, 'min') : two(seconds, 86_400, 'd', 3600, 'h')
}

/** A measured duration: `7.2 ms`, `70 ms`, and from a second on like `span`. */
export function latency(ms: number): string {
  if (ms < 10) return `${Math.round(ms * 10) / 10} ms`
  return ms < 1000 ? `${Math.round(ms)} ms` : span(ms)
}

/** A time that ticks, in one whole unit: `45 s`, `5 min`, `3 h`, `2 d`. */
export function age(ms: number): string {
  const seconds = Math.round(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`
  return seconds < 86_400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`
}

/** A rate in the unit that reads best: `5/s`, `0.5/s`, `2/min`. */
export function perSecond(rate: number): string {
  if (rate >= 0.1) return `${Number(rate.toPrecision(3))}/s`
  return rate * 60 >= 0.1 ? `${Number((rate * 60).toPrecision(3))}/min` : `${Number((rate * 3600).toPrecision(3))}/h`
}

/** `1 delivery`, `1,204 deliveries`. */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${withCommas(n)} ${n === 1 ? one : many}`
}

/** `4,213 deliveries wait`, or `About 4,200 deliveries wait` when the number is not exact. */
export function aboutMany(n: number, isExact: boolean, one: string, many = `${one}s`): string {
  return isExact ? count(n, one, many) : `About ${count(roughly(n), one, many)}`
}

/** A number that is not exact, to two digits. */
export function roughly(n: number): number {
  return n < 100 ? Math.round(n) : Number(n.toPrecision(2))
}

/** A whole number with a comma before each group of three digits. `toLocaleString` holds the loop for 14 ms at its first use. */
export function withCommas(n: number): string {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ',')
}

/** A size in the unit that reads best: `412 MiB`, `1.5 GiB`. */
export function bytesText(bytes: number): string {
  const mib = bytes / 2 ** 20
  if (mib >= 1024) return `${Number((mib / 1024).toPrecision(3))} GiB`
  return mib >= 1 ? `${Math.round(mib)} MiB` : `${Math.round(bytes / 1024)} KiB`
}

/** A share as a whole percentage. */
export function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}

function two(seconds: number, large: number, name: string, small: number, smallName: string): string {
  const rest = Math.floor((seconds % large) / small)
  return `${Math.floor(seconds / large)} ${name}${rest === 0 ? '' : ` ${rest} ${smallName}`}`
}

/** The known word most similar to the given one; undefined when none is similar enough. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  let best: string | undefined
  let bestDistance = Math.max(2, Math.floor(word.length / 3)) + 1
  for (const candidate of known) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase())
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

/** How many letters must be put in, taken out or changed to turn one word into the other. */
export function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, i) => i)
  for (let i = 1; i <= from.length; i++) {
    const next = [i]
    for (let j = 1; j <= to.length; j++) {
      const change = (row[j - 1] as number) + (from[i - 1] === to[j - 1] ? 0 : 1)
      next.push(Math.min(change, (row[j] as number) + 1, (next[j - 1] as number) + 1))
    }
    row = next
  }
  return row[to.length] as number
}
