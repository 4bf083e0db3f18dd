import { eventually } from '../test/e2e/eventually.ts'
import type { PostgresProcess } from '../test/store/postgres-process.ts'
import type { Replication } from '../test/store/replication.ts'
import { type FaultKind, pause, recoveryMs, takesWrites, unrecordedMs } from './fault-kind.ts'
import { patroniFailover } from './patroni-world.ts'
import { ReplicatedWorld } from './replicated-world.ts'

/** How the primary goes, and how it comes back without knowing of its successor. */
interface Departure {
  readonly name: string
  go(primary: PostgresProcess): Promise<void> | void
  /** How long until a standby takes its place: at least so long, and up to a second more. */
  readonly vacancyMs: number
  comeBack(former: PostgresProcess): Promise<void> | void
}

const start = (former: PostgresProcess) => former.start()

const departures: readonly Departure[] = [
  { name: 'killed', vacancyMs: 0, go: killBehind, comeBack: start },
  // Its connections stay open. Each process asks the others after 1.5 s: until then it would go on at a primary that is silent for a
  // moment, and no cluster manager replaces one so soon.
  { name: 'silent', vacancyMs: 2500, go: (primary) => primary.freeze(), comeBack: (former) => former.thaw() },
  { name: 'switched', vacancyMs: 0, go: (primary) => primary.stop('in order'), comeBack: start },
]

/** The standby gets nothing for this long before: a commit that does not wait for it is lost. */
const behindMs = 300
/** How long a former primary takes writes beside its successor, while the programs run. */
const besideMs = 2500
/** A frozen server ends by then the work that it got before; a hang guard. */
const earlierMs = 60_000

/**
 * The primary goes, its synchronous standby takes its place, and then the former one comes back and would take writes. The
 * programs are not started again.
 */
export const failovers: readonly FaultKind[] = [
  ...departures.map(
    ({ name, vacancyMs, go, comeBack }): FaultKind => ({
      name: `failover-${name}`,
      ...{ stores: ['postgres'], needsShim: false, unrecordedMs, world: ReplicatedWorld },
      async run(world, marks) {
        const { replication } = world as ReplicatedWorld
        const former = replication.primary
        await go(former)
        marks.gone()
        await pause(vacancyMs + world.chance.below(1000))
        await replication.promote()
        marks.promoted()
        if (!(await takesWrites(world, recoveryMs))) throw new Error('no publish was stored at the promoted server')
        marks.healed()
        const backAt = Date.now()
        await comeBack(former)
        await eventually('earlier sessions are done', () => areEarlierDone(replication, former, backAt), earlierMs)
        const before = await transactions(replication, former)
        await pause(besideMs)
        const writesToFormer = (await transactions(replication, former)) - before
        await former.kill()
        await replication.replaceFormer(former, true)
        return { writesToFormer }
      },
    }),
  ),
  patroniFailover,
]

async function killBehind(primary: PostgresProcess): Promise<void> {
  primary.holdLog()
  await pause(behindMs)
  await primary.kill()
}

/**
 * Whether no session that is older than the return does anything any more: after a freeze, each does what it had been sent, and a
 * commit waits for the standby for good.
 */
async function areEarlierDone(replication: Replication, former: PostgresProcess, backAt: number): Promise<boolean> {
  const busy = await replication.query(
    former,
    `select 1 from pg_stat_activity where backend_type = 'client backend' and backend_start < to_timestamp(${backAt / 1000})
        and wait_event is distinct from 'SyncRep'`,
  )
  return busy.length === 0
}

/** How many transactions have written to a server, or begun to. */
async function transactions(replication: Replication, server: PostgresProcess): Promise<number> {
  const [row] = await replication.query(server, 'select pg_snapshot_xmax(pg_current_snapshot())::text as next')
  return Number(row?.next)
}
