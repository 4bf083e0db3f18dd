import { eventually } from '../test/e2e/eventually.ts'
import { failovers } from './failovers.ts'
import { type FaultKind, leaseMs, pause, recoveryMs, takesWrites, unrecordedMs } from './fault-kind.ts'
import { poolerFaults } from './pooler-faults.ts'
import type { PostgresWorld } from './postgres-world.ts'
import type { Unsynced } from './power-cut.ts'
import { SqliteWorld } from './sqlite-world.ts'
import type { World } from './world.ts'

const onPostgres = (world: World) => world as PostgresWorld
/** A recovery takes one to five seconds here. */
const postgresRecoveryMs = 12_000
const jumpsMs = [3000, leaseMs * 2, 600_000, 3_600_000, 6 * 3_600_000]
const both = ['sqlite', 'postgres'] as const
const nothing = {}

export const faultKinds: readonly FaultKind[] = [
  {
    name: 'kill',
    ...{ stores: both, needsShim: false, unrecordedMs },
    async run(world) {
      const victim = world.worker === undefined || world.chance.once(2) ? 'serve' : 'worker'
      await (victim === 'serve' ? world.server : world.worker)?.kill()
      await world.start(victim)
      return nothing
    },
  },
  {
    name: 'restart',
    ...{ stores: both, needsShim: false, unrecordedMs: 0 },
    async run(world) {
      const victim = world.worker === undefined || world.chance.once(2) ? 'serve' : 'worker'
      const program = victim === 'serve' ? world.server : world.worker
      program?.terminate()
      const exit = await program?.exited
      if (exit?.code !== 0) throw new Error(`asked to stop, sluice ${victim} ended with ${exit?.signal ?? exit?.code}`)
      await world.start(victim)
      return nothing
    },
  },
  {
    name: 'freeze',
    ...{ stores: both, needsShim: false, unrecordedMs, leavesOpen: true },
    async run(world) {
      const program = world.worker ?? world.server
      program.pause()
      await pause(leaseMs * (1.2 + world.chance.below(100) / 100))
      program.resume()
      // It learns that its lease is over, and joins again.
      await pause(1000)
      return nothing
    },
  },
  ...(['dropped', 'torn', 'kept'] as const).map(powerCut),
  {
    name: 'power-cut-when-quiet',
    ...{ stores: both, needsShim: true, unrecordedMs: 0, isQuiet: true },
    // The renewals of a short lease would write to the disk what must get there without them.
    settings: { SLUICE_LEASE: '10s' },
    async run(world) {
      await pause(unrecordedMs)
      return cut(world, 'dropped')
    },
  },
  ...(['EIO', 'ENOSPC'] as const).flatMap((error) => [failing('sync', error), failing('write', error)]),
  {
    name: 'clock-jumps',
    ...{ stores: both, needsShim: true, unrecordedMs, movesHolds: ['postgres'] },
    async run(world) {
      const jumpMs = world.chance.of(jumpsMs) * nextSign(world)
      moveClock(world, jumpMs)
      await pause(leaseMs + 1000)
      return { [`jumps${jumpMs < 0 ? 'Back' : 'Ahead'}`]: 1 }
    },
    // Retries are due by the store's clock: those of an hour that was taken back would wait for it. In three days, they
    // would be too old.
    finish: (world) => moveClock(world, 86_400_000),
  },
  {
    name: 'worker-clock-jumps',
    ...{ stores: ['postgres'], needsShim: true, unrecordedMs: 0 },
    async run(world) {
      const clockMs = world.chance.of(jumpsMs) * nextSign(world)
      onPostgres(world).programShim?.set({ clockMs })
      await pause(1500)
      return nothing
    },
  },
  {
    name: 'database-stop-at-once',
    ...{ stores: ['postgres'], needsShim: false, unrecordedMs },
    async run(world) {
      await onPostgres(world).postgres.stop('at once')
      await pause(world.chance.below(1500))
      await onPostgres(world).postgres.start()
      return nothing
    },
  },
  {
    name: 'database-restart',
    ...{ stores: ['postgres'], needsShim: false, unrecordedMs },
    async run(world) {
      await onPostgres(world).postgres.stop('in order')
      await pause(world.chance.below(3000))
      await onPostgres(world).postgres.start()
      return nothing
    },
  },
  {
    name: 'database-backend-killed',
    ...{ stores: ['postgres'], needsShim: false, unrecordedMs },
    async run(world) {
      onPostgres(world).postgres.killBackend((backends) => world.chance.of(backends))
      if (!(await takesWrites(world, recoveryMs))) throw new Error('Postgres did not start again')
      return nothing
    },
  },
  ...failovers,
  ...poolerFaults,
]

function powerCut(unsynced: Unsynced): FaultKind {
  return {
    name: `power-cut-${unsynced}`,
    ...{ stores: both, needsShim: true, unrecordedMs, cutsPower: true },
    run: (world) => cut(world, unsynced),
  }
}

async function cut(world: World, unsynced: Unsynced): Promise<Record<string, number>> {
  if (!(world instanceof SqliteWorld)) return onPostgres(world).cut(unsynced)
  const did = await world.cut(unsynced)
  await world.start('serve')
  return did
}

/** A disk that fails, heals, and then loses its power: what it did not take in must not count as written. */
function failing(call: 'sync' | 'write', error: 'EIO' | 'ENOSPC'): FaultKind {
  return {
    name: `${call}-${error}`,
    ...{ stores: both, needsShim: true, unrecordedMs },
    async run(world) {
      const { shim, chance } = world
      const count = call === 'sync' ? 'syncsFailed' : 'writesFailed'
      const before = shim?.get(count) ?? 0
      const times = 1 + chance.below(6)
      shim?.fail(call, error, chance.below(40), times)
      await eventually('the disk failed', () => (shim?.get(count) ?? 0) > before, recoveryMs)
      await pause(chance.below(1000))
      shim?.heal()
      // A Postgres whose disk fails during its recovery stays there: its operator must start it again, as the cut does.
      const recovers = await takesWrites(world, world.kind === 'postgres' ? postgresRecoveryMs : recoveryMs)
      if (!recovers && world.kind !== 'postgres') throw new Error('the store did not take writes again')
      const failed = { [count]: (shim?.get(count) ?? 0) - before, ...(!recovers && { startedAgain: 1 }) }
      return { ...failed, ...(await cut(world, chance.of(['dropped', 'torn']))) }
    },
  }
}

const signs = new WeakMap<World, number>()

/** The direction of a world's next jump: the first by chance, and then in turns. */
function nextSign(world: World): number {
  const sign = -(signs.get(world) ?? world.chance.of([-1, 1]))
  signs.set(world, sign)
  return sign
}

const clocks = new WeakMap<World, number>()

/** Moves the clock of the store by so much, beside the jumps before. */
function moveClock(world: World, byMs: number): void {
  const clockMs = (clocks.get(world) ?? 0) + byMs
  clocks.set(world, clockMs)
  world.shim?.set({ clockMs })
}
