import { deadReasons } from '../domain/judge.ts'
import { outcomeCodes } from '../domain/outcome.ts'
import { delays } from '../features/why/delay.ts'
import { circuitStates, laneStates } from './facts.ts'

/**
 * A metric. `process` metrics are those of one process, and the sums of all processes add up. `store` metrics describe the
 * whole store; the processes that show them agree. `endpoint` metrics exist for the worst endpoints only.
 */
export interface Measure {
  readonly name: string
  readonly kind: 'counter' | 'gauge' | 'histogram'
  readonly scope: 'process' | 'store' | 'endpoint'
  readonly help: string
  /** Names of its labels, each with the values that it can have, or a sentence about them. */
  readonly labels: Readonly<Record<string, readonly string[] | string>>
  /** Upper bounds of the buckets of a histogram, in seconds. */
  readonly buckets?: readonly number[]
  /** How the values of processes that share an address become one; `own`: those of the process that is asked. */
  readonly together: 'sum' | 'most' | 'least' | 'own'
}

type Labels = Measure['labels']

/** From half a millisecond to a minute: the time of one request or one transaction. */
const shortBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60]
/** From a millisecond to a day: the time that a delivery can wait. */
const longBuckets = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14_400, 86_400]

/** The class of an attempt's status; `none` without an answer. */
export const statusClasses = ['none', '1xx', '2xx', '3xx', '4xx', '5xx'] as const

/** How a delivery ends. A dead letter ends as `dead`, `expired` or `dropped`, by its reason. */
export const deliveryEnds = ['delivered', 'dead', 'expired', 'dropped', 'coalesced', 'cancelled'] as const

export const waitingClasses = ['fresh', 'timed', 'replay'] as const
const workerStates = ['alive', 'lapsed', 'dead'] as const

/** All metrics. A new one is an entry here and a reader in exposition.ts; docs/metrics.md follows. */
export const measures = {
  messagesAccepted: counter('sluice_messages_accepted_total', 'Messages that were stored.'),
  messagesRepeated: counter(
    'sluice_messages_repeated_total',
    'Messages that were not stored, because an earlier message stands for them (Idempotency-Key, dedupe window).',
  ),
  publishesRefused: counter('sluice_publishes_refused_total', 'Publish requests that were refused.', {
    reason: 'the code of the error, see [errors](errors.md)',
  }),
  arrivals: counter('sluice_arrivals_total', 'Requests that arrived at sources.', {
    provider: 'the provider of the source, or `unknown` for a URL that is no source',
    result:
      '`accepted`, `repeated`, `answered` (a handshake), or why it was refused: `wrong_signature`, `not_signed`, `stale`, `malformed`, `wrong_method`, or the code of the [error](errors.md)',
  }),
  deliveriesAccepted: counter('sluice_deliveries_accepted_total', 'Deliveries of the messages that were stored.'),
  deliveriesEnded: counter('sluice_deliveries_ended_total', 'Deliveries that ended.', { end: deliveryEnds }),
  deliveriesRetried: counter(
    'sluice_deliveries_retried_total',
    'Failed attempts after which the delivery waits for another attempt, or for an operator.',
  ),
  deadLetters: counter('sluice_dead_letters_total', 'Deliveries that became dead letters.', { reason: deadReasons }),
  attempts: counter('sluice_attempts_total', 'Attempts that were recorded.', {
    outcome: outcomeCodes,
    status: statusClasses,
  }),
  deliveryWait: histogram(
    'sluice_delivery_wait_seconds',
    'Time from the instant at which a delivery was first due until its first attempt started.',
    longBuckets,
  ),
  slotDelay: histogram(
    'sluice_delivery_slot_wait_seconds',
    'Time for which the lane of a delivery could send and waited for a slot of its worker before its first attempt.',
    longBuckets,
  ),
  attemptDelay: histogram(
    'sluice_attempt_delay_seconds',
    'Time from the instant at which an attempt was due until it started, without retries in ordered lanes.',
    longBuckets,
  ),
  attemptDuration: histogram('sluice_attempt_duration_seconds', 'Duration of attempts.', shortBuckets),
  deliveryDuration: histogram(
    'sluice_delivery_duration_seconds',
    'Time from the instant at which a delivery was first due until it was delivered, without replays.',
    longBuckets,
  ),
  publishDuration: histogram(
    'sluice_store_publish_duration_seconds',
    'Time that the store takes to commit a group of publishes.',
    shortBuckets,
  ),
  settleDuration: histogram(
    'sluice_store_settle_duration_seconds',
    'Time that the store takes to record a batch of attempts.',
    shortBuckets,
  ),
  inFlight: gauge('sluice_attempts_in_flight', 'Attempts under way in this process.'),
  inFlightLimit: gauge('sluice_attempts_in_flight_limit', 'Attempts that may be under way in this process (inFlight).'),
  slotWaits: gauge(
    'sluice_lanes_waiting_for_slot',
    'Lanes of this process that could send, and have waited for one of its slots for a second or longer.',
  ),
  lanesOwned: gauge('sluice_lanes_owned', 'Lanes that this process owns.'),
  unsettled: gauge('sluice_attempts_unrecorded', 'Attempts of this process that ended and are not recorded yet.'),
  leads: gauge('sluice_leader', '1 while this process leads: it runs schedules, retention and sweeps.'),
  leaseAge: gauge(
    'sluice_lease_age_seconds',
    'Time since this process last extended its lease as a worker.',
    {},
    'most',
  ),
  storeUp: gauge('sluice_store_up', '1 if the store answered this process and takes writes.', {}, 'least'),
  storeWrite: gauge(
    'sluice_store_write_seconds',
    'Duration of one durable write of this process, a moment ago.',
    {},
    'most',
  ),
  loopDelay: gauge(
    'sluice_event_loop_delay_seconds',
    'Delay of the event loop over the last 15 to 30 seconds.',
    // Not `quantile`: promtool keeps that name for summaries.
    { percentile: ['50', '99', '100'] },
    'most',
  ),
  build: gauge('sluice_build_info', 'Always 1; the label is the version.', { version: 'version of Sluice' }, 'own'),
  cpu: counter('process_cpu_seconds_total', 'CPU time of the process.'),
  resident: gauge('process_resident_memory_bytes', 'Resident memory of the process.'),
  heap: gauge('process_heap_bytes', 'JavaScript heap in use.'),
  startTime: gauge('process_start_time_seconds', 'Start of the process, in seconds since 1970.', {}, 'least'),
  waiting: ofStore('sluice_deliveries_waiting', 'Waiting deliveries.', { class: waitingClasses }),
  behind: ofStore(
    'sluice_deliveries_behind',
    'Deliveries that were due more than 60 seconds ago and wait for a worker or a slot, and not for a receiver or a limit.',
  ),
  late: ofStore(
    'sluice_deliveries_late',
    'Deliveries that were due more than 60 seconds ago, of endpoints that are neither paused nor disabled, by whose delay it is.',
    { delay: delays },
  ),
  oldestDue: ofStore(
    'sluice_deliveries_oldest_due_seconds',
    'Time since the first of the deliveries that are behind was due.',
  ),
  waitingEndpoints: ofStore('sluice_endpoints_waiting', 'Endpoints with waiting deliveries.'),
  lanes: ofStore('sluice_lanes', 'Lanes with waiting deliveries, by state.', { state: laneStates }),
  regionLanes: ofStore(
    'sluice_region_lanes',
    'Lanes with waiting deliveries, by region and state, once a lane has a region.',
    {
      region: 'name of a region: up to 50 and `default`, and `other` for the rest',
      state: laneStates,
    },
  ),
  regionWorkers: ofStore('sluice_region_workers', 'Workers alive that serve a region, once a lane has a region.', {
    region: 'name of a region, as above',
  }),
  circuits: ofStore('sluice_circuits', 'Circuits of lanes with waiting deliveries, by state.', {
    state: circuitStates,
  }),
  workers: ofStore(
    'sluice_workers',
    'Workers: alive, with a lease that ran out, or declared dead within the last hour.',
    { state: workerStates },
  ),
  leader: ofStore('sluice_leader_present', '1 while a process leads.'),
  scheduleLag: ofStore('sluice_schedule_lag_seconds', 'Time since the tick of the schedule that is due the longest.'),
  storeSize: ofStore('sluice_store_size_bytes', 'Size of the database.'),
  walSize: ofStore('sluice_store_wal_bytes', 'Size of the write-ahead log of SQLite.'),
  diskFree: ofStore('sluice_store_disk_free_bytes', 'Free space on the file system of the SQLite file.'),
  surveyAge: ofStore('sluice_survey_age_seconds', 'Age of the count of waiting deliveries.'),
  endpointWaiting: ofEndpoint(
    'gauge',
    'sluice_endpoint_deliveries_waiting',
    'Waiting deliveries of the endpoints that have the most.',
  ),
  endpointFailures: ofEndpoint(
    'counter',
    'sluice_endpoint_attempts_failed_total',
    'Failed attempts at the endpoints that have the most, counted by this process.',
  ),
} as const satisfies Readonly<Record<string, Measure>>

export type MeasureName = keyof typeof measures

function counter(name: string, help: string, labels: Labels = {}) {
  return { name, kind: 'counter', scope: 'process', help, labels, together: 'sum' } as const
}

function histogram(name: string, help: string, buckets: readonly number[]) {
  return { name, kind: 'histogram', scope: 'process', help, labels: {}, buckets, together: 'sum' } as const
}

function gauge(name: string, help: string, labels: Labels = {}, together: Measure['together'] = 'sum') {
  return { name, kind: 'gauge', scope: 'process', help, labels, together } as const
}

function ofStore(name: string, help: string, labels: Labels = {}) {
  return { name, kind: 'gauge', scope: 'store', help, labels, together: 'own' } as const
}

function ofEndpoint<Kind extends Measure['kind']>(kind: Kind, name: string, help: string) {
  const labels = { application: 'uid or id of the application', endpoint: 'uid or id of the endpoint' }
  // The count of waiting deliveries is that of the whole store.
  return { name, kind, scope: 'endpoint', help, labels, together: kind === 'gauge' ? 'own' : 'sum' } as const
}
