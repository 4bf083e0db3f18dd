import { monitorEventLoopDelay } from 'node:perf_hooks'

/** The use of the machine by this process. */
export interface ProcessFigures {
  readonly startedAt: number
  readonly cpuSeconds: number
  readonly residentBytes: number
  readonly heapBytes: number
  /** Delay of the event loop in seconds, over the last 15 to 30 seconds. */
  readonly loopDelay: { readonly p50: number; readonly p99: number; readonly max: number }
}

/** The timer that measures the delay fires this often; its own interval is subtracted. */
const resolutionMs = 20
const windowMs = 15_000

/** Begins to measure the delay of the event loop. `read` answers the worse of the current window and the one before. */
export function watchProcess(): { read(): ProcessFigures; stop(): void } {
  const monitor = monitorEventLoopDelay({ resolution: resolutionMs })
  monitor.enable()
  const ofMonitor = () => ({
    p50: delayOf(monitor.percentile(50)),
    p99: delayOf(monitor.percentile(99)),
    max: delayOf(monitor.max),
  })
  let before = { p50: 0, p99: 0, max: 0 }
  const timer = setInterval(() => {
    before = ofMonitor()
    monitor.reset()
  }, windowMs)
  timer.unref()
  const startedAt = Date.now() / 1000 - process.uptime()
  return {
    read() {
      const { user, system } = process.cpuUsage()
      const { rss, heapUsed } = process.memoryUsage()
      const now = ofMonitor()
      return {
        startedAt,
        cpuSeconds: (user + system) / 1e6,
        residentBytes: rss,
        heapBytes: heapUsed,
        loopDelay: {
          p50: Math.max(before.p50, now.p50),
          p99: Math.max(before.p99, now.p99),
          max: Math.max(before.max, now.max),
        },
      }
    },
    stop() {
      clearInterval(timer)
      monitor.disable()
    },
  }
}

/** Seconds beyond the interval of the timer. Without a measurement yet, the monitor answers a huge number or none. */
function delayOf(nanoseconds: number): number {
  const seconds = nanoseconds / 1e9 - resolutionMs / 1000
  return Number.isFinite(seconds) && seconds > 0 && seconds < 1e6 ? seconds : 0
}
