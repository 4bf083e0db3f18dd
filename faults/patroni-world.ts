import { eventually } from '../test/e2e/eventually.ts'
import { type FaultKind, recoveryMs, takesWrites, unrecordedMs } from './fault-kind.ts'
import { PatroniCluster, patroniMissing } from './patroni-cluster.ts'
import { PostgresWorld } from './postgres-world.ts'

/** The programs of `PostgresWorld` on a cluster of Patroni, behind one address. */
class PatroniWorld extends PostgresWorld {
  #cluster: PatroniCluster | undefined

  get cluster(): PatroniCluster {
    if (this.#cluster === undefined) throw new Error('the cluster has not been started')
    return this.#cluster
  }

  override get store(): string {
    return this.cluster.url
  }

  protected override get database(): string {
    return this.cluster.url
  }

  protected override async startDatabase(): Promise<void> {
    this.#cluster = await PatroniCluster.start(this.folder)
    this.atEnd(() => this.cluster.close())
  }
}

/** The machine of the primary fails, or its server alone. Patroni promotes the standby, and makes the former primary follow it. */
export const patroniFailover: FaultKind = {
  name: 'failover-patroni',
  ...{ stores: ['postgres'], needsShim: false, unrecordedMs, world: PatroniWorld, missing: patroniMissing },
  async run(world, marks) {
    const { cluster } = world as PatroniWorld
    const former = await cluster.whole()
    const what = world.chance.of(['server', 'machine'] as const)
    await cluster.kill(former, what)
    marks.gone()
    const next = await eventually('Patroni has a primary again', async () => (await cluster.primaries())[0], recoveryMs)
    marks.promoted()
    if (!(await takesWrites(world, recoveryMs))) throw new Error('no publish was stored at the promoted server')
    marks.healed()
    cluster.startAgain()
    await cluster.whole()
    // Where the standby was not in step for Patroni, it starts the server that crashed again.
    return { [`${what}sFailed`]: 1, ...(next.name !== former.name && { promotions: 1 }) }
  },
}
