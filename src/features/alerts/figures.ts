import { count, span } from '../../domain/phrases.ts'
import { nameOf } from '../doctor/endpoint-rules.ts'
import {
  type DoctorLimits,
  doctorLimits,
  type EndpointFacts,
  type SystemFacts,
  type SystemRule,
} from '../doctor/facts.ts'
import { saturationText, slotWaitsOf, watchedRules } from '../doctor/system-rules.ts'
import type { AlertReading, AlertRule } from './rules.ts'

/** The figures of one moment. Undefined figures are not known yet. */
export interface AlertFacts {
  /** The waiting deliveries of the whole store, and those that have been due for more than a minute. */
  readonly queues: { readonly waiting: number; readonly behind: number; readonly oldestDueMs: number } | undefined
  /** The endpoints with the most waiting deliveries. */
  readonly endpoints: readonly (EndpointName & { readonly waiting: number })[] | undefined
  /** Endpoints whose circuit opened by itself and is not closed, while deliveries wait. */
  readonly openCircuits: readonly EndpointName[] | undefined
  /** The last five minutes. */
  readonly recent: RecentFigures
  readonly system: SystemFacts | undefined
}

export interface EndpointName {
  readonly id: string
  /** Uids, or ids where there are none. */
  readonly app: string
  readonly endpoint: string
}

export interface RecentFigures {
  readonly windowMs: number
  readonly delivered: number
  /** Attempts that failed. */
  readonly failed: number
  /** Of first attempts, how long their lanes could send and waited for a slot; null without a first attempt. */
  readonly delayP95Ms: number | null
}

/** A share of failures says nothing below this many of them. */
export const leastFailures = 5

export interface Figure {
  /** The figure in a few words, for the docs. */
  readonly meaning: string
  readonly unit:
    | 'deliveries'
    | 'endpoints'
    | 'share'
    | 'ratio'
    | 'seconds'
    | 'letters'
    | 'workers'
    | 'bytes'
    | 'circuits'
  readonly side: AlertRule['side']
  /** The finding of the doctor about the same trouble, which has the same sentence. */
  readonly finding?: keyof typeof watchedRules
  read(facts: AlertFacts, threshold: number): readonly AlertReading[] | undefined
}

/** All figures that rules can judge. */
export const figures = {
  waiting: {
    meaning: 'deliveries that wait in the whole store, but for the longest queues that a receiver or a limit delays',
    unit: 'deliveries',
    side: 'above',
    read: ({ queues }) =>
      queues &&
      ofServer(
        queues.waiting,
        `${count(queues.waiting, 'delivery waits', 'deliveries wait')}, the first due for ${span(queues.oldestDueMs)}.`,
        'sluice why',
      ),
  },
  endpoint_waiting: {
    meaning: 'deliveries that wait for one endpoint, unless its receiver or a limit delays them',
    unit: 'deliveries',
    side: 'above',
    read: ({ endpoints }) =>
      endpoints?.map((each) =>
        ofEndpoint(
          each,
          each.waiting,
          `${count(each.waiting, 'delivery waits', 'deliveries wait')} for ${nameOf(each)}.`,
        ),
      ),
  },
  saturation: {
    meaning: 'endpoints that could be sent to and have waited for a slot of their worker for a second or longer',
    unit: 'endpoints',
    side: 'above',
    read: ({ system }) => {
      if (system === undefined) return undefined
      const waits = slotWaitsOf(system)
      return ofServer(waits.lanes, saturationText(system), 'sluice doctor')
    },
  },
  wait_p95: {
    meaning:
      '95th percentile of the wait before the first attempt that is for want of a slot, over five minutes; waits for receivers and limits do not count',
    unit: 'seconds',
    side: 'above',
    read: ({ recent: { delayP95Ms, windowMs } }) =>
      ofServer(
        (delayP95Ms ?? 0) / 1000,
        `One delivery in twenty waited ${span(delayP95Ms ?? 0)} or longer for a slot of a worker, in the last ${span(windowMs)}.`,
        'sluice doctor',
      ),
  },
  failures: {
    meaning: `failed attempts ÷ delivered deliveries, over five minutes; 0 below ${leastFailures} failures`,
    unit: 'ratio',
    side: 'above',
    read: ({ recent: { failed, delivered, windowMs } }) =>
      ofServer(
        failed < leastFailures ? 0 : failed / Math.max(1, delivered),
        `${count(failed, 'attempt')} failed and ${count(delivered, 'delivery', 'deliveries')} succeeded in the last ${span(windowMs)}.`,
        'sluice doctor',
      ),
  },
  behind: {
    meaning:
      'deliveries that were due more than a minute ago, and wait for a worker or a slot; those that wait for receivers and limits do not count',
    unit: 'deliveries',
    side: 'above',
    read: ({ queues }) =>
      queues &&
      ofServer(
        queues.behind,
        `${count(queues.behind, 'delivery was', 'deliveries were')} due more than a minute ago, the first ${span(queues.oldestDueMs)} ago, and ${queues.behind === 1 ? 'waits' : 'wait'} for a worker or a slot.`,
        'sluice why --sort age',
      ),
  },
  circuit_open: {
    meaning:
      'circuit of one endpoint that opened by itself, while deliveries wait (1 = open), once those of more than a tenth of the endpoints with work did',
    unit: 'circuits',
    side: 'above',
    read: ({ openCircuits }) =>
      openCircuits?.map((each) =>
        ofEndpoint(each, 1, `The circuit of ${nameOf(each)} is open: its attempts fail, and deliveries wait.`),
      ),
  },
  dead_letters: {
    meaning: 'deliveries that became dead letters in ten minutes, if twice as many as in the ten minutes before',
    unit: 'letters',
    side: 'above',
    finding: 'dead_letters_growing',
    read: ({ system }, threshold) => {
      if (system === undefined) return undefined
      const { recent, before } = system.dead
      const value = recent < 2 * before ? 0 : recent
      return [{ subject: '', value, ...words('dead_letters_growing', system, { deadLetters: threshold }) }]
    },
  },
  worker_died: {
    meaning: `worker that died in the last ${span(doctorLimits.diedMs)} (1 = died)`,
    unit: 'workers',
    side: 'above',
    finding: 'worker_died',
    read: ({ system }) =>
      system?.workers.flatMap((worker) => {
        const said = words('worker_died', { ...system, workers: [worker] }, {})
        return said.sentence === '' ? [] : [{ subject: `worker ${worker.id}`, value: 1, ...said }]
      }),
  },
  schedule_late: {
    meaning: 'lateness of the schedule that is the latest',
    unit: 'seconds',
    side: 'above',
    finding: 'schedule_late',
    read: ({ system }, threshold) => {
      if (system === undefined) return undefined
      const value = Math.max(0, ...system.lateSchedules.map(({ lateMs }) => lateMs)) / 1000
      return [{ subject: '', value, ...words('schedule_late', system, { scheduleMs: threshold * 1000 }) }]
    },
  },
  disk_free: {
    meaning: 'free space on the file system of the SQLite file',
    unit: 'bytes',
    side: 'below',
    finding: 'disk_filling',
    read: ({ system }, threshold) => {
      const disk = system?.store.disk
      if (system === undefined || disk == null) return system && []
      return [{ subject: '', value: disk.freeBytes, ...words('disk_filling', system, { diskBytes: threshold }) }]
    },
  },
  wal_size: {
    meaning: 'size of the write-ahead log of SQLite',
    unit: 'bytes',
    side: 'above',
    finding: 'wal_filling',
    read: ({ system }, threshold) => {
      const logBytes = system?.store.logBytes
      if (system === undefined || logBytes == null) return system && []
      return [{ subject: '', value: logBytes, ...words('wal_filling', system, { logBytes: threshold }) }]
    },
  },
} as const satisfies Readonly<Record<string, Figure>>

export type FigureName = keyof typeof figures

const second = 1000
const minute = 60 * second

/** The rules of a server whose operator sets none. docs/alerts.md and the files of deploy/ are made from this table. */
export const defaultRules: readonly AlertRule[] = [
  rule('waiting', 'waiting', 'warning', 1000, 800, 5 * minute),
  rule('endpoint_waiting', 'endpoint_waiting', 'warning', 200, 150, minute),
  rule('saturation', 'saturation', 'warning', 0, 0, minute / 2),
  rule('wait_p95', 'wait_p95', 'warning', 30, 20, minute),
  rule('failures', 'failures', 'warning', 0.02, 0.015, minute),
  rule('behind', 'behind', 'critical', 0, 0, minute),
  rule('circuit_open', 'circuit_open', 'warning', 0, 0, 10 * minute),
  rule('dead_letters_growing', 'dead_letters', 'warning', doctorLimits.deadLetters - 1, 0, 0),
  rule('worker_died', 'worker_died', 'warning', 0, 0, 0, 0),
  rule('schedule_late', 'schedule_late', 'warning', doctorLimits.scheduleMs / second, 0, 0),
  rule('disk_filling', 'disk_free', 'critical', doctorLimits.diskBytes, doctorLimits.diskBytes * 1.2, minute),
  rule('wal_filling', 'wal_size', 'warning', doctorLimits.logBytes, doctorLimits.logBytes / 2, minute),
]

/** Reads the figure of a rule; undefined while it is not known. */
export function readFigure(facts: AlertFacts, { figure, threshold }: AlertRule): readonly AlertReading[] | undefined {
  const read = (figures as Readonly<Record<string, Figure>>)[figure]
  if (read === undefined) throw new Error(`there is no figure ${figure}`)
  return read.read(facts, threshold)
}

/** The clear figure of a rule that names none: a tenth better than the threshold. */
export function usualClear(side: AlertRule['side'], threshold: number): number {
  return side === 'above' ? threshold * 0.9 : threshold * 1.1
}

function rule(
  name: string,
  figure: FigureName,
  severity: AlertRule['severity'],
  threshold: number,
  clear: number,
  holdMs: number,
  clearMs = minute,
): AlertRule {
  return { name, figure, severity, side: figures[figure].side, threshold, clear, holdMs, clearMs }
}

/** The one reading of a figure of the server. */
function ofServer(value: number, sentence: string, command: string): readonly AlertReading[] {
  return [{ subject: '', app: null, endpoint: null, value, sentence, command }]
}

function ofEndpoint({ id, app, endpoint }: EndpointName, value: number, sentence: string): AlertReading {
  return { subject: id, app, endpoint, value, sentence, command: `sluice why ${app} --endpoint ${endpoint}` }
}

/** The sentence and the command of the doctor's rule about the same trouble; both are empty without a finding. */
function words(code: keyof typeof watchedRules, system: SystemFacts, limits: Partial<DoctorLimits>) {
  const known = { explained: new Set<EndpointFacts>(), allExplained: false }
  const rule: SystemRule = watchedRules[code]
  const [found] = [rule.find(system, { ...doctorLimits, ...limits }, known) ?? []].flat()
  const { sentence = '', command = '', app = null, endpoint = null } = found ?? {}
  return { sentence, command, app, endpoint }
}
