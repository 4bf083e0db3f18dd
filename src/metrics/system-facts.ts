import type { EpochMs } from '../domain/clock.ts'
import type { ScheduleFacts, WorkerFacts } from '../domain/doctor-facts.ts'
import type { Slots } from '../domain/snapshot.ts'
import type { ListedWorker, Store } from '../store/store.ts'

const schedulesListed = 20

/** A worker as the rules of the doctor see it. `live` are its slots of this moment, where they are known. */
export function workerFacts(worker: ListedWorker, live: Slots | undefined, now: EpochMs): WorkerFacts {
  const { report, endedAt, died, leaseUntil, joinedAt, seenAt } = worker
  const { inFlight = 0, inFlightLimit, clockAt } = report ?? {}
  return {
    id: worker.worker,
    name: worker.description,
    version: report?.version ?? null,
    state: endedAt === null ? (leaseUntil > now ? 'alive' : 'lapsed') : died ? 'dead' : 'left',
    joinedAgoMs: Math.max(0, now - joinedAt),
    endedAgoMs: endedAt === null ? null : Math.max(0, now - endedAt),
    lanes: worker.lanes,
    slots: live ?? (inFlightLimit === undefined ? null : { inFlight, limit: inFlightLimit }),
    clockAheadMs: clockAt === undefined ? null : clockAt - seenAt,
  }
}

/** Schedules whose tick has passed, the latest first. */
export async function lateSchedules(store: Pick<Store, 'lateSchedules' | 'applicationRefs'>): Promise<ScheduleFacts[]> {
  const { now, schedules } = await store.lateSchedules(schedulesListed)
  const apps = await store.applicationRefs(schedules.map(({ app }) => app))
  const late = schedules.map(({ id, uid, app, nextAt, failures }) => ({
    app: apps.get(app)?.uid ?? apps.get(app)?.id ?? '',
    schedule: uid ?? id,
    lateMs: Math.max(0, now - (nextAt ?? now)),
    failures,
  }))
  return late.toSorted((a, b) => b.lateMs - a.lateMs)
}
