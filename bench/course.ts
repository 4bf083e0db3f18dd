import type { Bench, Row } from './bench.ts'
import { machineNow } from './machine-clock.ts'
import { postgresUs } from './postgres.ts'
import type { Receivers } from './receivers.ts'
import type { Server } from './server.ts'
import type { Span } from './steady-rate.ts'
import { type DiskUse, diskUse, residentBytes } from './store-disk.ts'
import { type ThreadTime, threadTime } from './thread-time.ts'

const everyMs = 250

/** All that is known of a server and its store at one instant, and since the last look. */
export interface Look extends ThreadTime, DiskUse {
  readonly at: number
  readonly delivered: number
  readonly postgresUs: number
  readonly residentBytes: number
  /** The longest time since the last look in which no delivery arrived. */
  readonly pauseMs: number
  /** The longest turn of the server's event loop since the last look. */
  readonly turnMs: number
}

/** A stretch of the course: rates, costs for each delivery in it, and the most of what it had. */
export interface Stretch {
  readonly perSec: number
  readonly mainUs: number
  readonly allUs: number
  readonly mainWaitUs: number
  readonly postgresUs: number
  readonly pauseMs: number
  readonly turnMs: number
  readonly checkpoints: number
  readonly logMb: number
  readonly diskBytes: number
  readonly rssMb: number
  readonly storeMb: number
}

/** How a server that is busy all the time fares over many minutes. */
export class Course {
  readonly #bench: Bench
  readonly #receivers: Receivers
  readonly #server: Server
  readonly #place: string
  readonly #looks: Look[] = []

  constructor(bench: Bench, receivers: Receivers, server: Server, place: string) {
    this.#bench = bench
    this.#receivers = receivers
    this.#server = server
    this.#place = place
  }

  /** Looks at everything now and then, for that long. */
  async follow(seconds: number): Promise<void> {
    const until = machineNow() + seconds * 1000
    await this.#look() // The pauses and turns before it are forgotten.
    this.#looks.length = 0
    await this.#look()
    while (machineNow() < until) {
      await new Promise((resolve) => setTimeout(resolve, everyMs))
      await this.#look()
    }
  }

  whole(): Stretch {
    return stretchOf(this.#looks)
  }

  /** The first quarter and the last. */
  ends(): [Stretch, Stretch] {
    const quarter = Math.max(2, Math.ceil(this.#looks.length / 4))
    return [stretchOf(this.#looks.slice(0, quarter)), stretchOf(this.#looks.slice(-quarter))]
  }

  /** The longest time in which nothing arrived while the log was copied into the database. */
  get longestCheckpointPauseMs(): number {
    let longest = 0
    for (const [i, look] of this.#looks.entries()) {
      const before = this.#looks[i - 1]
      if (before !== undefined && look.checkpointWork !== before.checkpointWork)
        longest = Math.max(longest, look.pauseMs)
    }
    return longest
  }

  /** How much the database grows with each delivery. */
  storeBytesPerDelivery(): number {
    const [first, last] = [this.#looks[0], this.#looks.at(-1)] as [Look, Look]
    return (last.storeBytes - first.storeBytes) / (last.delivered - first.delivered)
  }

  /** The course in so many stretches. */
  rows(count: number): Row[] {
    const last = this.#looks.length - 1
    const [first] = this.#looks as [Look]
    return Array.from({ length: Math.min(count, last) }, (_, i) => {
      const [from, to] = [i, i + 1].map((n) => Math.round((n * last) / Math.min(count, last))) as [number, number]
      // Neighbours share a look: the end of one is the beginning of the next.
      const { postgresUs: onPostgres, ...stretch } = stretchOf(this.#looks.slice(from, to + 1))
      const second = Math.round(((this.#looks[to] as Look).at - first.at) / 1000)
      return { second, ...stretch, ...(this.#bench.store === 'postgres' && { postgresUs: onPostgres }) }
    })
  }

  async #look(): Promise<void> {
    const { delivered, pauses } = await this.#receivers.arrived()
    this.#looks.push({
      at: machineNow(),
      delivered,
      pauseMs: longest(pauses),
      turnMs: (await this.#server.spent()).longestTurnMs,
      ...threadTime(this.#server.pid),
      postgresUs: this.#bench.store === 'postgres' ? postgresUs(this.#bench) : Number.NaN,
      residentBytes: residentBytes(this.#server.pid),
      ...(await diskUse(this.#bench, this.#place, this.#server)),
    })
  }
}

/** The stretch between the first of these looks and the last. */
export function stretchOf(looks: readonly Look[]): Stretch {
  const [first, last] = [looks[0], looks.at(-1)] as [Look, Look]
  const delivered = last.delivered - first.delivered
  const later = looks.slice(1)
  const each = (field: 'mainUs' | 'allUs' | 'mainWaitUs' | 'postgresUs' | 'writtenBytes'): number =>
    (last[field] - first[field]) / delivered
  const most = (field: 'pauseMs' | 'turnMs' | 'logBytes' | 'residentBytes'): number =>
    Math.max(...later.map((look) => look[field]))
  return {
    perSec: (delivered * 1000) / (last.at - first.at),
    mainUs: each('mainUs'),
    allUs: each('allUs'),
    mainWaitUs: each('mainWaitUs'),
    postgresUs: each('postgresUs'),
    pauseMs: most('pauseMs'),
    turnMs: most('turnMs'),
    checkpoints: last.checkpoints - first.checkpoints,
    logMb: most('logBytes') / 2 ** 20,
    diskBytes: each('writtenBytes'),
    rssMb: most('residentBytes') / 2 ** 20,
    storeMb: last.storeBytes / 2 ** 20,
  }
}

function longest(spans: readonly Span[]): number {
  return Math.max(0, ...spans.map(({ fromAt, toAt }) => toAt - fromAt))
}
