import type { Clock } from '../domain/clock.ts'
import type { AlertWatch } from '../features/alerts/job.ts'
import type { DeadFile } from '../features/dead-file/job.ts'
import { foldAfterMs, hourMs, minuteMs, minutesKeptMs } from '../features/history/rules.ts'
import type { InboxReader } from '../features/inbox/job.ts'
import { type AlertReceivers, sendNotices } from '../features/notices/job.ts'
import type { Regions } from '../features/regions/rules.ts'
import { ScheduleRunner } from '../features/schedules/job.ts'
import { Preparer } from '../intake/preparer.ts'
import type { Publisher } from '../intake/publisher.ts'
import type { RetentionLimits } from '../store/maintenance.ts'
import type { Store } from '../store/store.ts'
import type { LeaderJob } from './leader.ts'
import { RestingSweep } from './resting-sweep.ts'
import { DeliveryEnds, erasePayloads, RetentionSweep } from './retention.ts'

const second = 1000
const minute = 60 * second
const hour = 60 * minute

const sweepMs = 15 * second
const sweepRows = 500
/** Rows of the history that one step folds or drops: some milliseconds of SQLite's time. */
const sumsPerStep = 200
/** Refused arrivals at sources are kept this long; they may hold personal data. */
const samplesKeptMs = 7 * 24 * hour

/** Rows of the inbox that were refused are kept this long, for their programs. */
const refusedKeptMs = 7 * 24 * hour

interface LeaderJobsDeps {
  readonly store: Store
  readonly clock: Clock
  /** Opened when there is something to publish, because it counts the waiting deliveries, which costs the store time. */
  publisher(): Publisher
  readonly retention: RetentionLimits
  /** The regions of this process; all by default. */
  readonly regions?: Regions
  /** How long the hourly sums of the history are kept. */
  readonly hoursKeptMs: number
  /** How many deliveries may wait at an endpoint that sets no limit of its own. */
  readonly waitingLimit: number
  /** The file that dead letters are appended to, if this process has one. */
  readonly deadFile?: DeadFile | undefined
  /** Publishes the rows that other programs insert; without it they wait. */
  readonly inbox?: InboxReader | undefined
  /** Notes in the history how many deliveries wait. */
  readonly lookAtDepths?: (() => Promise<void>) | undefined
  /** Steps the alerts; without it there are none. */
  readonly alerts?: AlertWatch | undefined
  readonly alertReceivers?: AlertReceivers | undefined
  /** The lease of workers. */
  readonly leaseMs: number
  readonly log?: (sentence: string) => void
  onTrouble(error: unknown): void
}

/** All jobs that one process does for the whole store. A new job is an entry here. */
export function leaderJobs(deps: LeaderJobsDeps): LeaderJob[] {
  const { store, clock, regions = null, deadFile, inbox, alerts, lookAtDepths, log } = deps
  const bounds = new RestingSweep(store, deps.waitingLimit)
  const preparer = new Preparer({ clock })
  const ends = new DeliveryEnds(store)
  const retained = new RetentionSweep(store, deps.retention)
  const runner = new ScheduleRunner(store, deps.publisher, deps.onTrouble, regions)
  // Jobs that read payloads are done for the regions of the process, whether it leads or not.
  const always = regions !== null
  return [
    {
      // Known schedules run on time; a schedule that another process made or changed is noticed within this interval.
      name: 'schedules',
      everyMs: second,
      always,
      delivers: true,
      step: () => runner.step(),
    },
    ...(inbox === undefined ? [] : [inboxJob(inbox, always)]),
    {
      name: 'notices',
      everyMs: second,
      step: () => sendNotices(store, preparer, deps.alertReceivers),
    },
    {
      // Wakes lanes whose publisher died between its commit and its wake-up.
      name: 'reconcile',
      everyMs: sweepMs,
      async step() {
        await store.reconcile()
        return false
      },
    },
    {
      name: 'workers',
      everyMs: 5 * second,
      step: logDeaths(store, clock, deps.leaseMs, log),
    },
    ...(alerts === undefined ? [] : [alertJob(alerts)]),
    ...(lookAtDepths === undefined ? [] : [depthsJob(lookAtDepths)]),
    {
      name: 'bounds',
      everyMs: sweepMs,
      step: () => bounds.step(),
    },
    sweep('samples', minute, (rows) => store.sweepSamples(samplesKeptMs, rows)),
    sweep('refused rows', minute, (rows) => store.sweepInbox(refusedKeptMs, rows)),
    sweep('idempotency', sweepMs, (rows) => store.sweepIdempotency(rows)),
    sweep('windows', sweepMs, (rows) => store.sweepWindows(rows)),
    {
      name: 'payloads',
      everyMs: second,
      step: () => erasePayloads(store, ends),
    },
    ...(deadFile === undefined ? [] : [{ name: 'dead file', everyMs: second, always, step: () => deadFile.step() }]),
    {
      name: 'retention',
      everyMs: 5 * minute,
      step: () => retained.step(),
    },
    // Rows that an operator trimmed off the audit log.
    sweep('audit', 5 * second, (rows) => store.removeTrimmed(rows)),
    {
      name: 'history',
      everyMs: minute,
      step: () => tidyHistory(store, deps.hoursKeptMs),
    },
    {
      name: 'upkeep',
      everyMs: hour,
      async step() {
        await store.upkeep()
        return false
      },
    },
  ]
}

/** A job that removes rows, so many in each step, as long as there are any. */
function sweep(name: string, everyMs: number, remove: (rows: number) => Promise<number>): LeaderJob {
  return { name, everyMs, step: async () => (await remove(sweepRows)) === sweepRows }
}

/** Rows are signalled; this finds those whose signal was lost, and those for which there was no room. */
function inboxJob(inbox: InboxReader, always: boolean): LeaderJob {
  return { name: 'inbox', everyMs: second, always, delivers: true, step: () => inbox.step() }
}

/** Hold times are minutes, so that a step every ten seconds is soon enough. */
function alertJob(alerts: AlertWatch): LeaderJob {
  return {
    name: 'alerts',
    everyMs: 10 * second,
    firstAfterMs: 10 * second,
    async step() {
      await alerts.step()
      return false
    },
  }
}

/** Twice a minute, so that every minute of the history has a look. */
function depthsJob(look: () => Promise<void>): LeaderJob {
  return {
    name: 'depths',
    everyMs: 30 * second,
    firstAfterMs: 5 * second,
    async step() {
      await look()
      return false
    },
  }
}

/** Merges rows of the history that no process writes any more, and drops old ones. Answers whether there are more. */
async function tidyHistory(store: Store, hoursKeptMs: number): Promise<boolean> {
  const folded = await store.foldHistory(foldAfterMs, sumsPerStep)
  const minutes = await store.dropHistory(minuteMs, minutesKeptMs, sumsPerStep)
  const hours = await store.dropHistory(hourMs, hoursKeptMs, sumsPerStep)
  return folded || minutes === sumsPerStep || hours === sumsPerStep
}

/** Workers that the leader looks at. */
const listedWorkers = 200

/** Logs each death of a worker once. A new leader also logs deaths of the last few leases: its predecessor may be among them. */
function logDeaths(
  store: Pick<Store, 'listWorkers'>,
  clock: Clock,
  leaseMs: number,
  log: LeaderJobsDeps['log'],
): LeaderJob['step'] {
  const logged = new Set<number>()
  return async () => {
    const since = clock.now() - 3 * leaseMs - 15 * second
    for (const { worker, description, died, endedAt } of await store.listWorkers(listedWorkers)) {
      if (!died || endedAt === null || endedAt < since || logged.has(worker)) continue
      logged.add(worker)
      log?.(`worker ${worker} (${description}) is dead; other workers deliver for it`)
    }
    return false
  }
}
