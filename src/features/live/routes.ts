import { Type } from 'typebox'
import { AppError } from '../../domain/app-error.ts'
import { outcomeCodes } from '../../domain/outcome.ts'
import { type Need, viewShared } from '../../operations/access.ts'
import { fixedCaller } from '../../operations/auth.ts'
import {
  appId,
  endpointId,
  flag,
  iso,
  msgId,
  nullable,
  optional,
  shortText,
  text,
  uidOut,
  whole,
} from '../../operations/fields.ts'
import { appKeyOf, lookUp } from '../../operations/lookup.ts'
import { type Noun, type Out, Reply, route } from '../../operations/route.ts'
import { LaneOut } from '../lanes/schemas.ts'
import { BackgroundTaskOut } from '../tasks/schemas.ts'
import type { Overview } from './service.ts'
import type { NamedAttempt } from './stream-service.ts'

const perSecond = (what: string) => Type.Number({ description: `${what} per second, over the last ten seconds.` })

const LiveOverviewOut = Type.Object({
  at: Type.String({ format: 'date-time', description: 'Time of the figures.' }),
  storeUp: flag('Whether the store answers; if not, the other figures are old.'),
  perSecond: Type.Object(
    {
      accepted: perSecond('Messages accepted'),
      delivered: perSecond('Deliveries that succeeded'),
      failed: perSecond('Attempts that failed'),
      dead: perSecond('Dead letters'),
    },
    { description: 'Rates of the whole server.' },
  ),
  waiting: nullable(
    Type.Object(
      {
        total: whole('Deliveries that wait.'),
        fresh: whole('Waiting deliveries without an attempt.'),
        timed: whole('Waiting deliveries with a due time: retries and delayed messages.'),
        replay: whole('Waiting deliveries of replays.'),
        behind: whole('Deliveries that have been due for more than a minute and wait for a worker or a slot.'),
        oldestDueMs: whole('Time since the first of them became due, in milliseconds.'),
        lateByReceiver: whole(
          'Deliveries that have been due for more than a minute because their receivers delay them.',
        ),
        lateByLimit: whole('Deliveries that have been due for more than a minute because of a limit that was set.'),
        endpoints: whole('Endpoints with waiting deliveries.'),
        isExact: flag('Whether every waiting delivery was counted; otherwise the figures are about right.'),
        asOf: Type.String({ format: 'date-time', description: 'Time of these figures.' }),
      },
      { description: 'Waiting deliveries; null before they are counted once.' },
    ),
  ),
  circuits: nullable(
    Type.Object(
      { open: whole('Open circuits.'), halfOpen: whole('Circuits that wait for a probe.') },
      { description: 'Circuits that stop deliveries; null before they are counted once.' },
    ),
  ),
  workers: Type.Object(
    {
      alive: whole('Workers that are alive.'),
      inFlight: whole('Attempts under way, as of their last sign of life.'),
      limit: whole('Attempts that may be under way at once.'),
    },
    { description: 'The workers together.' },
  ),
  scheduleLagMs: whole('How late the latest schedule is, in milliseconds.'),
  feed: Type.Object(
    { shown: whole('Attempts that the stream showed.'), of: whole('Attempts that there were in this process.') },
    { description: 'Attempts since the last overview. The stream shows a sample when there are too many.' },
  ),
})

const LiveAttemptOut = Type.Object({
  id: text('Id of the attempt.'),
  timestamp: Type.String({ format: 'date-time', description: 'Start of the attempt.' }),
  appId,
  endpointId,
  endpointUid: uidOut,
  msgId,
  eventType: text('Event type of the message.'),
  attempt: whole('1 for the first attempt of the delivery.'),
  outcome: Type.Enum(['delivered', 'retry', 'dead'], { description: 'Result for the delivery.' }),
  code: Type.Enum([...outcomeCodes], { description: 'How the attempt ended.' }),
  error: nullable(text('Details of a failure.')),
  responseStatusCode: whole('Status of the response; 0 without one.'),
  responseDurationMs: whole('Duration in milliseconds.'),
})

export function toOverviewOut({ figures, perSecond, shown, of }: Overview): Out<typeof LiveOverviewOut> {
  const { waiting, lanes, workers } = figures
  const alive = workers.filter(({ endedAt, leaseUntil }) => endedAt === null && leaseUntil > figures.now)
  const sum = (figure: (worker: (typeof alive)[number]) => number) =>
    alive.reduce((total, worker) => total + figure(worker), 0)
  const [fresh = 0, timed = 0, replay = 0] = waiting?.byClass ?? []
  return {
    at: iso(figures.now),
    storeUp: figures.storeUp,
    perSecond,
    waiting: waiting
      ? {
          total: waiting.waiting,
          fresh,
          timed,
          replay,
          behind: waiting.behind,
          oldestDueMs: Math.round(waiting.oldestDueMs),
          lateByReceiver: waiting.late.receiver,
          lateByLimit: waiting.late.limit,
          endpoints: waiting.endpoints,
          isExact: waiting.isExact,
          asOf: iso(waiting.asOf),
        }
      : null,
    circuits: lanes ? { open: lanes.circuits.open, halfOpen: lanes.circuits.half_open } : null,
    workers: {
      alive: alive.length,
      inFlight: sum(({ report }) => report?.inFlight ?? 0),
      limit: sum(({ report }) => report?.inFlightLimit ?? 0),
    },
    scheduleLagMs: Math.round(figures.scheduleLagMs),
    feed: { shown, of },
  }
}

export function toLiveAttemptOut(named: NamedAttempt): Out<typeof LiveAttemptOut> {
  const { id, at, appId, endpointId, endpointUid, msgId, eventType, n, outcome, code, error, status, durationMs } =
    named
  const names = { appId, endpointId, endpointUid, msgId, eventType }
  const result = { outcome, code, error, responseStatusCode: status, responseDurationMs: Math.round(durationMs) }
  return { id, timestamp: iso(at), ...names, attempt: n, ...result }
}

const LiveQuery = Type.Object({
  app: optional(shortText(256), 'Application of `endpoint`, by id or uid.'),
  endpoint: optional(shortText(256), 'Only this endpoint, by id or uid: its lane and its attempts.'),
  session: optional(Type.Enum(['dashboard', 'portal']), 'Session of the request, where a browser sends no header.'),
})

const LiveEventOut = Type.Union([LiveOverviewOut, LiveAttemptOut, LaneOut, BackgroundTaskOut])

const need: Need = viewShared

export const live: Noun = {
  tag: 'Live',
  description: 'Live stream of figures, attempts, lanes and tasks.',
  schemas: { LiveOverviewOut, LiveAttemptOut, LiveEventOut },
  routes: [
    route('GET /live', need, {
      id: 'v1.live.follow',
      summary: 'Follow what happens, as server-sent events',
      description:
        'Events: `overview` every second (callers of all applications), `attempt`, `lane` (of the endpoint asked for) and `task`. A slow client gets the newest state and misses older events.',
      query: LiveQuery,
      answers: { 200: { lines: LiveEventOut, events: true } },
      handle: async ({ query, request }, { store, auth, live: hub }) => {
        const caller = request.caller ?? fixedCaller
        const { app: ref, endpoint: name } = query
        if (name !== undefined && ref === undefined && caller.app === null) {
          throw new AppError('invalid_request', 'An endpoint needs its application: give app, too.')
        }
        const app = name === undefined ? null : await appKeyOf(store, caller, ref)
        const find = (each: string) => store.findEndpoint(app ?? -1, each)
        const endpoint = name === undefined ? null : await lookUp('endpoint', name, find)
        const lastEventId = request.headers['last-event-id']
        const { method, headers, host, address } = request
        const recheck = async () =>
          auth.admit({ method, headers, host, query, address, params: {}, caller: null }, need)
        const stream = hub.open({
          caller,
          endpoint,
          lastEventId: typeof lastEventId === 'string' ? lastEventId : undefined,
          recheck,
        })
        return new Reply(200, stream, { 'x-accel-buffering': 'no' })
      },
    }),
  ],
}
