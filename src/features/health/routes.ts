import { Type } from 'typebox'
import type { EpochMs } from '../../domain/clock.ts'
import { read } from '../../operations/access.ts'
import { flag, Instant, instant, iso, isoOrNull, nullable, optional, text, whole } from '../../operations/fields.ts'
import { type Noun, type Out, Reply, route } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import { type ListedWorker, StoreTrouble } from '../../store/store.ts'

const Part = Type.Object({ status: Type.Enum(['healthy', 'unhealthy'], { description: 'Status of this part.' }) })

/** Queue and cache live in the database; Svix's clients expect all three. */
const HealthOut = Type.Object({
  database: Type.Object({
    ...Part.properties,
    detail: optional(Type.String(), 'Why it is unhealthy, or a warning for operators'),
  }),
  queue: Part,
  cache: Part,
})

const LeaderOut = Type.Object({
  leader: nullable(
    Type.Object({
      description: text('Name of the process.'),
      epoch: whole('Number of leaders so far.'),
      since: instant('Start of its leadership.'),
    }),
  ),
})

const WorkerOut = Type.Object({
  id: whole('Number of the worker, higher for later ones.'),
  name: text('Program, process id and host.'),
  version: nullable(text('Version of Sluice.')),
  host: nullable(text('Name of its machine.')),
  pid: nullable(whole('Process id.')),
  startedAt: instant('Time at which it joined.'),
  lastSeenAt: instant('Its last sign of life: when it last extended its lease.'),
  endedAt: nullable(instant('Time at which it left or was declared dead.')),
  regions: nullable(Type.Array(Type.String(), { description: 'Regions whose lanes it may own; null for all.' })),
  lanes: whole('Lanes that it owns.'),
  inFlight: nullable(whole('Attempts under way, as of its last sign of life.')),
  inFlightLimit: nullable(whole('Attempts that it may have under way at once.')),
  isLeader: flag('Whether it runs schedules, retention and sweeps.'),
  state: Type.Enum(['alive', 'lapsed', 'left', 'dead'], {
    description: '`lapsed`: its lease expired, and another worker is about to take over.',
  }),
})

const WorkersOut = Type.Object({
  data: Type.Array(WorkerOut, { description: 'The newest first, up to 200.' }),
  asOf: Instant,
})

const WorkersQuery = Type.Object({
  ended: optional(Type.Boolean(), 'Whether workers that left or died in the last week are listed, too.'),
})

const listedWorkers = 200

const SettingOut = Type.Object({
  name: text('Its name in the file.'),
  value: text('Value; secrets show as `****`, unset settings as `(unset)`.'),
  origin: text('Where the value comes from, such as `default`, `flag --listen` or `environment SLUICE_LISTEN`.'),
  flag: text('Its flag.'),
  variable: text('Its variable.'),
  help: text('Its meaning.'),
})

const SettingsOut = Type.Object({
  data: Type.Array(SettingOut, { description: 'All settings of the process that answers.' }),
})

function toWorkerOut(worker: ListedWorker, now: EpochMs): Out<typeof WorkerOut> {
  const { report, endedAt, died, leaseUntil } = worker
  const live = leaseUntil > now ? ('alive' as const) : ('lapsed' as const)
  return {
    id: worker.worker,
    name: worker.description,
    version: report?.version ?? null,
    host: report?.host ?? null,
    pid: report?.pid ?? null,
    startedAt: iso(worker.joinedAt),
    lastSeenAt: iso(worker.seenAt),
    endedAt: isoOrNull(endedAt),
    regions: worker.regions === null ? null : [...worker.regions],
    lanes: worker.lanes,
    inFlight: endedAt === null ? (report?.inFlight ?? null) : null,
    inFlightLimit: report?.inFlightLimit ?? null,
    isLeader: worker.leads,
    state: endedAt === null ? live : died ? 'dead' : 'left',
  }
}

function toHealthOut(status: 'healthy' | 'unhealthy', detail?: string): Out<typeof HealthOut> {
  return { database: { status, ...(detail !== undefined && { detail }) }, queue: { status }, cache: { status } }
}

async function readiness(_call: unknown, { store }: Services) {
  try {
    return toHealthOut('healthy', await store.ping())
  } catch (error) {
    const detail = error instanceof StoreTrouble ? error.detail : 'The database is damaged; the log says how.'
    return new Reply(503, toHealthOut('unhealthy', detail), { 'retry-after': '2' })
  }
}

export const health = {
  tag: 'Health',
  description: 'Whether the server and its store answer.',
  schemas: { HealthOut, LeaderOut, WorkerOut, WorkersOut, SettingOut, SettingsOut },
  routes: [
    route('GET /health', 'open', {
      id: 'v1.health.get',
      summary: 'Check whether the server is ready: its store takes writes',
      description: 'Readiness. 503 with the same body when the store refuses writes; `database.detail` says why.',
      answers: { 200: HealthOut, 503: HealthOut },
      handle: readiness,
    }),
    // The paths at which Kubernetes asks its own processes.
    route('GET /readyz', 'open', {
      root: '',
      id: 'v1.health.readyz',
      summary: 'Check whether the server is ready, as `GET /api/v1/health`',
      answers: { 200: HealthOut, 503: HealthOut },
      handle: readiness,
    }),
    route('GET /healthz', 'open', {
      root: '',
      id: 'v1.health.healthz',
      summary: 'Check whether the server is ready, as `GET /api/v1/health`',
      answers: { 200: HealthOut, 503: HealthOut },
      handle: readiness,
    }),
    route('GET /livez', 'open', {
      root: '',
      id: 'v1.health.livez',
      summary: 'Check whether the server answers, as `GET /api/v1/health/ping`',
      answers: { 204: null },
      handle: () => undefined,
    }),
    route('GET /leader', read, {
      id: 'v1.leader.get',
      summary: 'Get the process that runs schedules, retention and sweeps',
      description: 'Null between the end of one leader and the next.',
      answers: { 200: LeaderOut },
      handle: async (_call, { store, clock }) => {
        const leader = await store.leader()
        if (leader === undefined) return { leader: null }
        const { description, epoch, sinceMs } = leader
        return { leader: { description, epoch, since: iso(clock.now() - sinceMs) } }
      },
    }),
    route('GET /worker', read, {
      id: 'v1.worker.list',
      summary: 'List the workers',
      description: 'Processes that deliver: those that are alive, and with `ended` those of the last week.',
      query: WorkersQuery,
      answers: { 200: WorkersOut },
      handle: async ({ query: { ended = false } }, { store, clock }) => {
        const [workers, now] = [await store.listWorkers(listedWorkers), clock.now()]
        const shown = workers.filter(({ endedAt }) => ended || endedAt === null)
        return { data: shown.map((worker) => toWorkerOut(worker, now)), asOf: iso(now) }
      },
    }),
    route('GET /setting', read, {
      id: 'v1.setting.list',
      summary: 'List the settings of the server with their origins',
      description: 'Read-only: settings change with a restart. Secrets are masked.',
      answers: { 200: SettingsOut },
      handle: (_call, { settings }) => ({ data: settings() }),
    }),
    route('GET /health/ping', 'open', {
      id: 'v1.health.ping',
      summary: 'Check whether the server answers',
      description: 'Liveness. It does not ask the store.',
      answers: { 204: null },
      handle: () => undefined,
    }),
  ],
} satisfies Noun
