import type { Cluster, Worker } from 'node:cluster'
import { systemClock } from './clock.ts'
import type { Logger } from './log.ts'

/** Figures of one process, in a form that its siblings add up. It survives JSON. */
export type Report = Readonly<Record<string, unknown>>

/** The figures of the other processes: of those that run, and the sum of those that have ended. */
export interface Gathered {
  readonly reports: readonly Report[]
  readonly ended: Report | undefined
}

/** This process as one of several that share their addresses. */
export interface Member {
  /** Whether it is the first that started: it prints for all. */
  readonly isFirst: boolean
  /** The ports that the first has for addresses with any free port, which the others share; undefined in the first. */
  readonly ports: Ports | undefined
  /** It answers requests at these ports. */
  ready(ports: Ports): void
  /** Resolves when the process that started it asks it to stop. */
  readonly stopRequested: Promise<'SIGTERM'>
  /** Says how its figures are had, for its siblings. */
  onReport(report: () => Promise<Report>): void
  /** The figures of its siblings. */
  gather(): Promise<Gathered>
}

/** The ports that processes share. */
export interface Ports {
  readonly listen: number
  readonly metrics: number | undefined
}

/** Several processes that share the addresses they listen on. */
export interface Processes {
  /** Undefined in a process that stands alone, or that starts the others. */
  readonly member: Member | undefined
  /**
   * Runs the command line of this process in so many processes until a stop is requested. A process that ends by itself is
   * started again. Answers the exit code. `add` sums the figures of processes that have ended.
   */
  supervise(count: number, log: Logger, stopRequested: Promise<unknown>, add: AddReports): Promise<number>
}

type AddReports = (ended: Report | undefined, last: Report) => Report

/** Set for each of several processes: `first`, or the ports of the first. It is no setting, so its name is none of theirs. */
export const memberVariable = 'MEMBER_OF_SLUICE'
const firstRestartMs = 1000
const lastRestartMs = 30_000
/** A process that ran for this long was well: when it ends, another starts soon. */
const wellMs = 60_000
/** A sibling that does not answer in time counts with the figures of its last report. */
const reportWithinMs = 1000

type ToMember =
  | { readonly kind: 'stop' }
  | { readonly kind: 'report'; readonly n: number }
  | { readonly kind: 'gathered'; readonly n: number; readonly gathered: Gathered }
type ToSupervisor =
  | { readonly kind: 'ready'; readonly ports: Ports }
  | { readonly kind: 'reported'; readonly n: number; readonly report: Report }
  | { readonly kind: 'gather'; readonly n: number }

/** Loaded when it is needed: most commands have no siblings. */
function loadCluster(): Cluster {
  // The types describe what an import answers; this is the module itself.
  return process.getBuiltinModule('node:cluster') as unknown as Cluster
}

/**
 * The processes of this program. Each listens for itself, and the system gives each new connection to one of them. Connections
 * of a process that dies are reset, so that clients try again; a process that handed them on would leave some open for ever.
 */
export function processesOf(env: Readonly<Record<string, string | undefined>>): Processes {
  let member: Member | undefined
  return {
    get member() {
      const given = env[memberVariable]
      if (given !== undefined) member ??= memberOf(given === 'first' ? undefined : (JSON.parse(given) as Ports))
      return member
    },
    supervise: (count, log, stopRequested, add) => new Supervisor(count, log, add).run(stopRequested),
  }
}

function memberOf(ports: Ports | undefined): Member {
  const stopped = Promise.withResolvers<'SIGTERM'>()
  const open = new Map<number, (gathered: Gathered) => void>()
  let report: (() => Promise<Report>) | undefined
  let asked = 0
  const tell = (message: ToSupervisor) => process.send?.(message)
  process.on('message', (message: ToMember) => {
    if (message.kind === 'stop') stopped.resolve('SIGTERM')
    else if (message.kind === 'gathered') {
      open.get(message.n)?.(message.gathered)
      open.delete(message.n)
    } else if (message.kind === 'report') {
      // A report that fails is not answered: the last one counts.
      report?.().then(
        (made) => tell({ kind: 'reported', n: message.n, report: made }),
        () => {},
      )
    }
  })
  return {
    isFirst: ports === undefined,
    ports,
    ready: (own) => tell({ kind: 'ready', ports: own }),
    stopRequested: stopped.promise,
    onReport: (made) => {
      report = made
    },
    gather: () =>
      new Promise((resolve) => {
        const n = asked++
        open.set(n, resolve)
        tell({ kind: 'gather', n })
      }),
  }
}

/** Starts the processes, and starts another for each that ends by itself. */
class Supervisor {
  readonly #count: number
  readonly #log: Logger
  readonly #add: AddReports
  readonly #cluster = loadCluster()
  readonly #last = new Map<Worker, Report>()
  #ended: Report | undefined
  #stopping = false
  /** The ports of the first, once it is ready. */
  #ports: Ports | undefined
  #asked = 0
  readonly #questions = new Map<number, (from: Worker, report: Report) => void>()
  #restartMs = firstRestartMs
  readonly #restarts = new Set<() => void>()
  #exitCode = 0
  readonly #allEnded = Promise.withResolvers<number>()

  constructor(count: number, log: Logger, add: AddReports) {
    this.#count = count
    this.#log = log
    this.#add = add
  }

  async run(stopRequested: Promise<unknown>): Promise<number> {
    this.#cluster.setupPrimary({ silent: false })
    const first = this.#fork()
    const stopped = stopRequested.then(() => this.#stop())
    const failed = await Promise.race([first, stopped.then(() => undefined)])
    // The reason that keeps the first from starting holds for all, and the first has printed it.
    if (failed !== undefined) return failed
    const others = Array.from({ length: this.#stopping ? 0 : this.#count - 1 }, () => this.#fork())
    await Promise.race([Promise.all(others), stopped])
    const pids = this.#workers().map(({ process: { pid } }) => pid)
    if (!this.#stopping) this.#log.info({ processes: pids.length, pids }, 'started processes that share the addresses')
    return this.#allEnded.promise
  }

  #workers(): Worker[] {
    return Object.values(this.#cluster.workers ?? {}).filter((worker) => worker !== undefined)
  }

  /** Resolves when the process is ready, or with its exit code when it ends before. */
  #fork(): Promise<number | undefined> {
    const which = this.#ports === undefined ? 'first' : JSON.stringify(this.#ports)
    const worker = this.#cluster.fork({ [memberVariable]: which })
    const startedAt = systemClock.steady()
    return new Promise((resolve) => {
      let wasReady = false
      worker.on('message', (message: ToSupervisor) => {
        if (message.kind === 'ready') {
          wasReady = true
          this.#ports ??= message.ports
          resolve(undefined)
        } else this.#hear(worker, message)
      })
      worker.on('exit', (code: number | null, signal: string | null) => {
        resolve(code ?? 1)
        this.#exited(worker, code, signal, systemClock.steady() - startedAt, wasReady)
      })
      worker.on('error', (error) => this.#log.warn({ err: error }, 'a process could not be asked'))
    })
  }

  #exited(worker: Worker, code: number | null, signal: string | null, livedMs: number, wasReady: boolean): void {
    const last = this.#last.get(worker)
    this.#last.delete(worker)
    if (last !== undefined) this.#ended = this.#add(this.#ended, last)
    if (this.#stopping) {
      this.#exitCode = Math.max(this.#exitCode, code ?? 1)
      if (this.#workers().length === 0) this.#allEnded.resolve(this.#exitCode)
      return
    }
    if (!wasReady && this.#workers().length === 0 && this.#restarts.size === 0) return
    if (livedMs >= wellMs) this.#restartMs = firstRestartMs
    const waitMs = this.#restartMs
    this.#restartMs = Math.min(lastRestartMs, this.#restartMs * 2)
    const { pid } = worker.process
    this.#log.error({ pid, code, signal }, `a process ended; another starts in ${waitMs / 1000} s`)
    const cancel = systemClock.after(waitMs, () => {
      this.#restarts.delete(cancel)
      void this.#fork()
    })
    this.#restarts.add(cancel)
  }

  /** A message, not a signal: a terminal sends its signal to every process, and a second one ends a process at once. */
  #stop(): void {
    this.#stopping = true
    for (const cancel of this.#restarts) cancel()
    const workers = this.#workers()
    for (const worker of workers) worker.send({ kind: 'stop' } satisfies ToMember)
    if (workers.length === 0) this.#allEnded.resolve(this.#exitCode)
  }

  #hear(from: Worker, message: Exclude<ToSupervisor, { kind: 'ready' }>): void {
    if (message.kind === 'reported') {
      this.#last.set(from, message.report)
      this.#questions.get(message.n)?.(from, message.report)
    } else {
      void this.#gather(from).then((gathered) => {
        if (from.isConnected()) from.send({ kind: 'gathered', n: message.n, gathered } satisfies ToMember)
      })
    }
  }

  /** Asks every process, also the one that asks for the others: its figures are needed when it has ended. */
  async #gather(asking: Worker): Promise<Gathered> {
    const n = this.#asked++
    const workers = this.#workers().filter((worker) => worker.isConnected())
    const silent = new Set(workers)
    await new Promise<void>((resolve) => {
      const cancel = systemClock.after(reportWithinMs, resolve)
      this.#questions.set(n, (from) => {
        silent.delete(from)
        if (silent.size > 0) return
        cancel()
        resolve()
      })
      for (const worker of workers) worker.send({ kind: 'report', n } satisfies ToMember)
    })
    this.#questions.delete(n)
    const others = workers.filter((worker) => worker !== asking)
    const reports = others.map((worker) => this.#last.get(worker)).filter((report) => report !== undefined)
    return { reports, ended: this.#ended }
  }
}
