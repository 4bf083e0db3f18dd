import type { MetricsPage } from '../http/metrics.ts'
import type { Facts } from '../metrics/facts.ts'
import type { Meter } from '../metrics/meter.ts'
import { systemClock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import { listenOn, watchProcess } from '../runtime/process.ts'
import type { Member } from '../runtime/processes.ts'
import type { Address } from '../runtime/setting-kinds.ts'
import type { Config } from '../runtime/settings.ts'
import { version } from '../runtime/version.ts'
import type { Store } from '../store/store.ts'
import type { Delivering } from './delivering.ts'

/** The metrics of a process. A process that offers none loads nothing for them. */
export interface Metrics {
  /** Loads the library that writes the text, and begins to measure the event loop: a scrape would stall for 40 ms. */
  open(): Promise<void>
  /** As the API offers them. */
  readonly page: MetricsPage
  /** Offers them at an address of their own, without a key. */
  listen(address: Address): Promise<MetricsServer>
  stop(): void
}

/** A server for metrics alone. */
export interface MetricsServer {
  /** With its actual port. */
  readonly address: Address
  close(): Promise<void>
}

interface MetricsDeps {
  readonly config: Config
  readonly store: Store
  readonly meter: Meter
  readonly facts: Facts
  readonly log: Logger
  /** The deliveries of this process, once they are started. */
  delivering(): Delivering | undefined
  /** This process as one of several behind an address. */
  readonly member: Member | undefined
}

/** Composes the metrics of a process. */
export function composeMetrics({ config, store, meter, facts, log, delivering, member }: MetricsDeps): Metrics {
  let opened: ReturnType<typeof make> | undefined
  let stop = () => {}

  async function make() {
    const { Exposition } = await import('../metrics/exposition.ts')
    const watched = watchProcess()
    stop = () => watched.stop()
    const own = () => ({ version, worker: delivering()?.figures(), ...watched.read() })
    const parts = { store, clock: systemClock, meter, facts, endpoints: config.metricsEndpoints, own }
    const exposition = new Exposition({ ...parts, gather: member && (() => member.gather()) })
    member?.onReport(() => exposition.samples())
    return exposition
  }

  const page: MetricsPage = {
    isPublic: config.metricsPublic,
    async write(accept) {
      opened ??= make()
      return (await opened).write(accept)
    },
  }
  async function open() {
    opened ??= make()
    await opened
  }

  return {
    page,
    open,
    async listen(address) {
      await open()
      const { metricsServer } = await import('../http/metrics.ts')
      const server = metricsServer(page, systemClock, (error) =>
        log.error({ err: error }, 'a bug: metrics could not be written'),
      )
      return {
        address: await listenOn(server, address, member !== undefined),
        close: () =>
          new Promise((resolve) => {
            server.close(() => resolve())
            server.closeAllConnections()
          }),
      }
    },
    stop: () => stop(),
  }
}
