import type { Bench } from './bench.ts'
import { type Child, startChild } from './child.ts'
import type { Behaviour, ReceiverCommands } from './receiver.ts'
import { type Span, sliceMs } from './steady-rate.ts'

/**
 * Two: one process takes about 60,000 requests/s in, hardly more than the bare loop sends, so that it would be what is
 * measured.
 */
const processes = 2
const lookMs = 50

/** A receiving end of several processes, each with a share of the endpoints. */
export interface Receivers {
  /** One per endpoint, each an origin and a path of its own: `http://127.0.0.1:PORT/0`, `/1`, … */
  readonly urls: readonly string[]
  /** Forgets everything that came; behaviours stay. */
  reset(): Promise<void>
  behave(paths: readonly string[], behaviour: Behaviour): Promise<void>
  /** Answers when that many were delivered, or when none came for `quietMs`; the number is how many were. */
  until(count: number, quietMs: number): Promise<number>
  totals(): Promise<Totals>
  /** How many came so far. */
  delivered(): Promise<number>
  /** As `delivered`, and the pauses since this was last asked in which no process got anything. */
  arrived(): Promise<{ readonly delivered: number; readonly pauses: readonly Span[] }>
}

export interface Totals {
  readonly delivered: number
  readonly startedAt: number
  readonly peakConnections: number
  /** Deliveries in each slice of time since `startedAt`. */
  readonly timeline: Uint32Array
}

/** Starts the processes and has them listen for that many endpoints. */
export async function startReceivers(bench: Bench, endpoints: number): Promise<Receivers> {
  const all = Array.from({ length: processes }, () => startChild<ReceiverCommands>('receiver', bench.ends))
  const listening = await Promise.all(
    all.map((receiver, i) => receiver.ask('listen', Math.ceil((endpoints - i) / processes))),
  )
  const urls = Array.from({ length: endpoints }, (_, i) => {
    const port = listening[i % processes]?.[Math.floor(i / processes)]
    return `http://127.0.0.1:${port}/${i}`
  })
  return { urls, ...asOne(all) }
}

function asOne(all: readonly Child<ReceiverCommands>[]): Omit<Receivers, 'urls'> {
  const delivered = async () => sumOf(await Promise.all(all.map((receiver) => receiver.ask('delivered'))))
  return {
    delivered,
    async arrived() {
      const [first = [], ...others] = await Promise.all(all.map((receiver) => receiver.ask('pauses')))
      return { delivered: await delivered(), pauses: others.reduce(common, first) }
    },
    async reset() {
      await Promise.all(all.map((receiver) => receiver.ask('reset', 'counts')))
    },
    async behave(paths, behaviour) {
      await Promise.all(all.map((receiver) => receiver.ask('behave', { paths, behaviour })))
    },
    async until(count, quietMs) {
      let [last, quiet] = [-1, 0]
      for (;;) {
        const now = await delivered()
        quiet = now === last ? quiet + lookMs : 0
        last = now
        if (now >= count || quiet > quietMs) return now
        await new Promise((resolve) => setTimeout(resolve, lookMs))
      }
    },
    async totals() {
      const parts = await Promise.all(all.map((receiver) => receiver.ask('totals')))
      return {
        delivered: sumOf(parts.map((part) => part.delivered)),
        peakConnections: sumOf(parts.map(({ peakConnections }) => peakConnections)),
        ...joinTimelines(parts),
      }
    },
  }
}

/** One timeline of several that began at about the same time. */
export function joinTimelines(
  parts: readonly Pick<Totals, 'startedAt' | 'timeline'>[],
): Pick<Totals, 'startedAt' | 'timeline'> {
  const startedAt = Math.min(...parts.map((part) => part.startedAt))
  const timeline = new Uint32Array(Math.max(...parts.map((part) => part.timeline.length)))
  for (const part of parts) {
    const late = Math.round((part.startedAt - startedAt) / sliceMs)
    for (let i = 0; i + late < timeline.length; i++) {
      timeline[i + late] = (timeline[i + late] ?? 0) + (part.timeline[i] ?? 0)
    }
  }
  return { startedAt, timeline }
}

/** The stretches that lie in a pause of both lists, each in the order of time. */
export function common(some: readonly Span[], others: readonly Span[]): Span[] {
  const found: Span[] = []
  for (const one of some) {
    for (const other of others) {
      const fromAt = Math.max(one.fromAt, other.fromAt)
      const toAt = Math.min(one.toAt, other.toAt)
      if (fromAt < toAt) found.push({ fromAt, toAt })
    }
  }
  return found
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0)
}
