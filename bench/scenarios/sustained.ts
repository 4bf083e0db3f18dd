import { setUp } from '../api.ts'
import { meanOf, runBareLoop } from '../bare-loop.ts'
import type { Bench, Figures, Scenario } from '../bench.ts'
import { startChild } from '../child.ts'
import { Course } from '../course.ts'
import type { LoadCommands } from '../load.ts'
import { type Receivers, startReceivers } from '../receivers.ts'
import { assertAccepted } from '../receiving.ts'
import type { SendCommands } from '../reference-send.ts'
import { apiKey, startServer } from '../server.ts'
import { emptyStore, withStore } from '../store-place.ts'

const endpoints = 12
const concurrency = 8
const publishConnections = 16
/** So many deliveries wait at all times, so that the server has enough to do, and each queue stays far below its bound. */
const supply = 24_000
const messagesAtOnce = 500
/** The first seconds, in which connections open and code warms up, count in no figure. */
const warmUpSeconds = 5
const rows = 20

/** Publishes and delivers as fast as the server can for many minutes. */
export const sustained: Scenario = {
  summary:
    'publishing and delivering at full speed for minutes (--minutes): rate, processor time, disk and memory over time',
  isLong: true,
  targets: {
    sqlite: [
      { figure: 'lost', atMost: 0, promised: true },
      { figure: 'mainDrift', atMost: 1.2 },
    ],
    postgres: [
      { figure: 'lost', atMost: 0, promised: true },
      { figure: 'mainDrift', atMost: 1.2 },
    ],
  },

  async run(bench): Promise<Figures> {
    const receivers = await startReceivers(bench, endpoints)
    const reference = startChild<SendCommands>('reference-send', bench.ends)
    const before = await runBareLoop(bench, receivers, reference, concurrency)
    const place = await emptyStore(bench, 'sustained')
    const server = await startServer(bench, place)
    const url = await setUp(
      server.api,
      'bench',
      receivers.urls.map((to) => ({ url: to, concurrency })),
    )
    await receivers.reset()
    const supplied = supplying(bench, receivers, url)
    bench.note('warming up')
    await pause(warmUpSeconds * 1000)
    const seconds = bench.minutes * 60
    bench.note(`publishing and delivering for ${seconds} s`)
    const course = new Course(bench, receivers, server, place)
    await course.follow(seconds)
    const accepted = await supplied.end()
    const delivered = await receivers.until(accepted * endpoints, 10_000)
    await server.stop()
    const raw = meanOf(before, await runBareLoop(bench, receivers, reference, concurrency))
    const { pending } = await withStore(place, (store) => store.counts())

    const all = course.whole()
    const [early, late] = course.ends()
    return {
      deliveriesPerSec: all.perSec,
      rawPerSec: raw.perSec,
      ratio: all.perSec / raw.perSec,
      mainUs: all.mainUs,
      rawMainUs: raw.mainUs,
      mainRatio: raw.mainUs / all.mainUs,
      allUs: all.allUs,
      rawAllUs: raw.allUs,
      allRatio: raw.allUs / all.allUs,
      mainDrift: late.mainUs / early.mainUs,
      mainWaitUs: all.mainWaitUs,
      ...(bench.store === 'postgres' && { postgresUs: all.postgresUs }),
      checkpoints: all.checkpoints,
      longestPauseMs: all.pauseMs,
      longestCheckpointPauseMs: course.longestCheckpointPauseMs,
      longestTurnMs: all.turnMs,
      logPeakMb: all.logMb,
      diskBytesPerDelivery: all.diskBytes,
      storeBytesPerDelivery: course.storeBytesPerDelivery(),
      rssMb: server.peakRssMb(),
      deliveries: delivered,
      lost: accepted * endpoints - delivered + pending,
      minutes: bench.minutes,
      course: course.rows(rows),
    }
  },
}

/** Publishes whenever few deliveries wait, until it is ended; then answers how many messages were accepted. */
function supplying(bench: Bench, receivers: Receivers, url: string): { end(): Promise<number> } {
  const load = startChild<LoadCommands>('load', bench.ends)
  let isOver = false
  let accepted = 0
  const run = async (): Promise<void> => {
    while (!isOver) {
      const delivered = await receivers.delivered()
      if (accepted * endpoints - delivered >= supply) {
        await pause(20)
        continue
      }
      const target = { url, key: apiKey, connections: publishConnections, seconds: 60, count: messagesAtOnce }
      const report = await load.ask('closedLoop', target)
      assertAccepted(report)
      accepted += report.accepted
    }
  }
  const running = run()
  return {
    async end() {
      isOver = true
      await running
      return accepted
    },
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
