import { chmodSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { Membership } from '../src/engine/membership.ts'
import type { Store } from '../src/store/store.ts'
import { runMicrotasks, VirtualClock } from '../test/virtual-clock.ts'
import { type Costs, measureCosts } from './fleet-costs.ts'

/**
 * Finds what stops a fleet from growing: for each way to run Sluice, the resource that ends first, and where. The membership of
 * each worker is the real one, in virtual time; its statements are counted, and take as long as a real Postgres
 * took for them a moment before.
 *
 *     node scripts/fleet-walls.ts                                    10,000 workers, 1,000,000 lanes
 *     node scripts/fleet-walls.ts --workers 1000 --lanes 100000 --cores 32
 */
const { values } = parseArgs({
  options: {
    workers: { type: 'string', default: '10000' },
    lanes: { type: 'string', default: '1000000' },
    perSecond: { type: 'string', default: '50000' },
    cores: { type: 'string', default: '16' },
    connections: { type: 'string', default: '500' },
    walMb: { type: 'string', default: '200' },
    deliveries: { type: 'string', default: '20000' },
    dir: { type: 'string', default: '/var/tmp' },
  },
})
const lanes = Number(values.lanes)
const most = Number(values.workers)
const perSecond = Number(values.perSecond)
const cores = Number(values.cores)
const leaseMs = 10_000
/** Connections of a process to the server: directly, the default; behind a pooler, the one that listens. */
const directConnections = 9
/** A worker asks for lanes at least this often (engine/ownership.ts), and without notifications reads all of its lanes as often. */
const pollMs = 1000
/** A queue that is read again and has nothing new, of a batch of 64 (read-due). */
const rereadUs = 12

/** The time that the database is busy, per second of a phase, and the calls that made it so. */
interface Phase {
  readonly busy: number
  readonly renewals: number
  readonly counts: number
  readonly longestRenewalMs: number
}

/** The cost of a renewal among so many workers, between the measured ones. */
function renewUsAmong(costs: Costs, workers: number): number {
  const points = costs.renewUs
  const next = Math.max(
    1,
    points.findIndex(([count]) => count >= workers),
  )
  const [[fromCount, fromUs], [toCount, toUs]] = [points[next - 1], points[next]] as [
    readonly [number, number],
    readonly [number, number],
  ]
  return fromUs + ((workers - fromCount) / (toCount - fromCount)) * (toUs - fromUs)
}

/** A database of so many cores: a statement waits for a core, and takes it for its time. */
class ModelStore {
  readonly #clock: VirtualClock
  readonly #costs: Costs
  readonly #free: number[] = new Array(cores).fill(0)
  readonly members: Membership[] = []
  #next = 1
  #busyUs = 0
  #renewals = 0
  #counts = 0
  #longestMs = 0
  #since = 0
  #signalled = false

  constructor(clock: VirtualClock, costs: Costs) {
    this.#clock = clock
    this.#costs = costs
  }

  /** The figures since the last call. */
  phase(): Phase {
    const seconds = (this.#clock.steady() - this.#since) / 1000
    const phase = {
      busy: this.#busyUs / 1e6 / seconds,
      renewals: this.#renewals / seconds,
      counts: this.#counts / seconds,
      longestRenewalMs: this.#longestMs,
    }
    this.#since = this.#clock.steady()
    this.#busyUs = this.#renewals = this.#counts = this.#longestMs = 0
    return phase
  }

  /** The four methods of the store that a membership calls. */
  get methods(): Pick<Store, 'join' | 'renew' | 'startLeaving' | 'leave'> {
    return {
      join: async () => {
        await this.#take(this.#costs.renewUs[0]?.[1] ?? 0)
        this.signal()
        return this.#next++
      },
      renew: async (_worker, _leaseMs, _report, counted = true, looks = true) => {
        const asked = this.#clock.steady()
        const workers = this.members.length
        const isCounted = counted && workers > 1
        this.#renewals++
        if (isCounted) this.#counts++
        const leaseUs = this.#costs.renewUs[0]?.[1] ?? 0
        if (!looks) {
          await this.#take(leaseUs)
          this.#longestMs = Math.max(this.#longestMs, this.#clock.steady() - asked)
          return { alive: true }
        }
        await this.#take(renewUsAmong(this.#costs, workers) + (isCounted ? this.#costs.countPerLaneUs * lanes : 0))
        this.#longestMs = Math.max(this.#longestMs, this.#clock.steady() - asked)
        const share = { activeLanes: lanes, fewestLanes: Math.floor(lanes / workers) }
        return { alive: true, workers, sharers: workers, ...(isCounted && { lanes: share }) }
      },
      startLeaving: async () => {},
      leave: async () => {},
    }
  }

  /** The members changed: each hears of it. Several changes within a millisecond are one signal here. */
  signal(): void {
    if (this.#signalled) return
    this.#signalled = true
    this.#clock.after(1, () => {
      this.#signalled = false
      this.#busyUs += this.#costs.notifyPerListenerUs * this.members.length
      for (const member of this.members) member.renewNow()
    })
  }

  #take(us: number): Promise<void> {
    this.#busyUs += us
    const now = this.#clock.steady()
    let core = 0
    for (let i = 1; i < cores; i++) if ((this.#free[i] as number) < (this.#free[core] as number)) core = i
    const until = Math.max(now, this.#free[core] as number) + us / 1000
    this.#free[core] = until
    return new Promise((resolve) => void this.#clock.after(until - now, resolve))
  }
}

/** So many workers start within a minute, run for two, and a hundredth of them is replaced. */
async function runFleet(workers: number, costs: Costs) {
  const clock = new VirtualClock(undefined, runMicrotasks)
  const store = new ModelStore(clock, costs)
  const startMs = 60_000
  let lapsed = 0
  for (let i = 0; i < workers; i++) {
    clock.after((startMs * i) / workers, () => {
      const member = new Membership({
        store: store.methods,
        clock,
        leaseMs,
        description: '',
        regions: null,
        onRenewed: () => {},
        onLapsed: () => void lapsed++,
        onLost: () => {},
        onTrouble: () => {},
      })
      store.members.push(member)
      void member.join()
    })
  }
  await clock.advance(startMs)
  const starting = store.phase()
  await clock.advance(60_000)
  store.phase()
  await clock.advance(60_000)
  const steady = store.phase()
  for (let i = 0; i < workers / 100; i++) clock.after(i * 10, () => store.signal())
  await clock.advance(30_000)
  const replacing = store.phase()
  for (const member of store.members) member.stop()
  return { starting, steady, replacing, lapsed }
}

interface Demand {
  readonly resource: string
  /** The use by so many workers, of `capacity`. */
  use(workers: number): number
  readonly capacity: number
  readonly unit: string
}

/** The most workers with which the use stays within the capacity, up to a hundred times those asked for. */
function wallOf({ use, capacity }: Demand): number {
  let [within, beyond] = [0, most * 100]
  if (use(beyond) <= capacity) return Number.POSITIVE_INFINITY
  while (beyond - within > 1) {
    const middle = Math.floor((within + beyond) / 2)
    if (use(middle) <= capacity) within = middle
    else beyond = middle
  }
  return within
}

/** The steady use of the database's cores by membership, between the fleets that were run. */
function membershipCores(runs: readonly (readonly [number, number])[], workers: number): number {
  const next = Math.min(runs.length - 1, Math.max(1, runs.findIndex(([count]) => count >= workers) >>> 0))
  const [[fromCount, from], [toCount, to]] = [runs[next - 1], runs[next]] as [
    readonly [number, number],
    readonly [number, number],
  ]
  // Renewals grow with the workers, and each of them with the workers: a power of them.
  const power = Math.log(Math.max(to, 1e-9) / Math.max(from, 1e-9)) / Math.log(toCount / fromCount)
  return from * (workers / fromCount) ** power
}

function stages(costs: Costs, runs: readonly (readonly [number, number])[]): Record<string, Demand[]> {
  const deliveries = (perSecond * costs.deliveryUs) / 1e6
  const wal: Demand = {
    resource: `log of ${perSecond.toLocaleString('en')} deliveries/s`,
    use: () => (perSecond * costs.deliveryWalBytes) / 1e6,
    capacity: Number(values.walMb),
    unit: 'MB/s',
  }
  const processor = (resource: string, more: (workers: number) => number): Demand => ({
    resource,
    use: (workers) => deliveries + more(workers),
    capacity: cores,
    unit: 'cores',
  })
  const idleClaims = (workers: number) => (workers * costs.idleClaimUs * (1000 / pollMs)) / 1e6
  // A publish in a group of its own notifies once: at most once for each delivery, and at least for a group of 512.
  const notices = (workers: number) => ((perSecond / 512) * workers * costs.notifyPerListenerUs) / 1e6
  const singleNotices = (workers: number) => (perSecond * workers * costs.notifyPerListenerUs) / 1e6
  const rereads = () => (lanes * rereadUs * (1000 / pollMs)) / 1e6
  const direct: Demand[] = [
    { resource: 'connections', use: (n) => n * directConnections, capacity: Number(values.connections), unit: '' },
    processor('processor: deliveries and membership', (n) => membershipCores(runs, n)),
    processor('processor: deliveries and idle claims', idleClaims),
    processor('processor: deliveries and NOTIFY, groups of 512', notices),
    processor('processor: deliveries and NOTIFY, one per delivery', singleNotices),
    wal,
  ]
  const [, ...behind] = direct
  return {
    'one Postgres, directly': direct,
    'behind a pooler, polling': [
      processor('processor: deliveries and polls of all lanes', rereads),
      processor('processor: deliveries and membership', (n) => membershipCores(runs, n)),
      processor('processor: deliveries and idle claims', idleClaims),
      wal,
    ],
    'behind a pooler, one direct connection each': [
      { resource: 'connections', use: (n) => n, capacity: Number(values.connections), unit: '' },
      ...behind,
    ],
  }
}

const dir = join(values.dir, `sluice-walls-${process.pid}`)
mkdirSync(dir, { recursive: true })
// Postgres may run as another user, and must pass through.
chmodSync(dir, 0o755)
try {
  const sizes = [10, 100, 1000, most].filter((each, i, all) => each <= most && all.indexOf(each) === i)
  console.log(
    `Measuring on a real Postgres: ${lanes.toLocaleString('en')} lanes, up to ${most.toLocaleString('en')} workers …`,
  )
  const costs = await measureCosts({
    parent: dir,
    lanes,
    workers: sizes,
    deliveries: Number(values.deliveries),
  })
  console.log(`  a renewal: ${costs.renewUs.map(([n, us]) => `${us.toFixed(0)} µs among ${n}`).join(', ')}`)
  console.log(`  counting the lanes to share: ${((costs.countPerLaneUs * lanes) / 1000).toFixed(0)} ms`)
  console.log(`  a claim that finds nothing: ${costs.idleClaimUs.toFixed(0)} µs`)
  console.log(`  a notification: ${costs.notifyPerListenerUs.toFixed(2)} µs for each session that listens`)
  console.log(
    `  a delivery: ${costs.deliveryUs.toFixed(0)} µs of Postgres, ${costs.deliveryWalBytes.toFixed(0)} bytes of log\n`,
  )
  const runs: [number, number][] = []
  console.log('Membership in virtual time, cores of the database that it keeps busy (longest renewal):')
  for (const workers of sizes) {
    const { starting, steady, replacing, lapsed } = await runFleet(workers, costs)
    runs.push([workers, steady.busy])
    const shown = ({ busy, longestRenewalMs }: Phase) => `${busy.toFixed(3)} (${longestRenewalMs.toFixed(0)} ms)`
    console.log(
      `  ${workers} workers: starting ${shown(starting)}, steady ${shown(steady)}, 1 % replaced ${shown(replacing)}; ` +
        `${steady.renewals.toFixed(0)} renewals/s, ${steady.counts.toFixed(2)} counts/s, ${lapsed} leases lapsed`,
    )
  }
  for (const [stage, demands] of Object.entries(stages(costs, runs))) {
    console.log(
      `\n${stage}: ${cores} cores, ${perSecond.toLocaleString('en')} deliveries/s, ${lanes.toLocaleString('en')} lanes`,
    )
    const walls = demands.map((demand) => ({ ...demand, wall: wallOf(demand) })).sort((a, b) => a.wall - b.wall)
    for (const { resource, use, capacity, unit, wall } of walls) {
      const at = Number.isFinite(wall) ? `${wall.toLocaleString('en')} workers` : 'no number of workers'
      console.log(
        `  ${at.padEnd(22)} ${resource}; with ${most.toLocaleString('en')}: ${use(most).toFixed(1)} of ${capacity} ${unit}`,
      )
    }
  }
} finally {
  rmSync(dir, { recursive: true, force: true })
}
