import { type FaultKind, pause, recoveryMs, takesWrites, unrecordedMs } from './fault-kind.ts'
import { PooledWorld } from './pooled-world.ts'

/** Faults behind a pooler in transaction mode, which gives the connection of one client to the next. */
export const poolerFaults: readonly FaultKind[] = [
  {
    name: 'pooler-database-killed',
    ...{ stores: ['postgres'], needsShim: false, unrecordedMs, world: PooledWorld },
    async run(world) {
      const { postgres } = world as PooledWorld
      await postgres.kill()
      await pause(world.chance.below(1500))
      await postgres.start()
      if (!(await takesWrites(world, recoveryMs))) throw new Error('the store did not take writes again')
      return {}
    },
  },
  {
    name: 'pooler-killed',
    ...{ stores: ['postgres'], needsShim: false, unrecordedMs, world: PooledWorld },
    async run(world) {
      await (world as PooledWorld).restartPooler(() => pause(world.chance.below(1500)))
      if (!(await takesWrites(world, recoveryMs))) throw new Error('the store did not take writes again')
      return {}
    },
  },
]
