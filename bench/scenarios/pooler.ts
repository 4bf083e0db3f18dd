import { pgbouncerVersion, startPgBouncer } from '../../test/store/pgbouncer.ts'
import { setUp } from '../api.ts'
import type { Bench, Figures, Scenario } from '../bench.ts'
import { startChild } from '../child.ts'
import type { LoadCommands } from '../load.ts'
import { latencyFigures, median } from '../percentile.ts'
import { postgresUs } from '../postgres.ts'
import { assertAccepted, journey, startReceiving } from '../receiving.ts'
import { apiKey, type Server, startServer } from '../server.ts'
import { emptyStore } from '../store-place.ts'
import { threadTime } from '../thread-time.ts'

const rate = 300
const seconds = 5
const warmUpSeconds = 3
const rounds = 5
const connections = 32

interface Slice {
  readonly acceptP99Ms: number
  readonly acceptP50Ms: number
  readonly arriveP99Ms: number
  readonly cpuUs: number
  readonly postgresUs: number
}

/** Two servers on two databases of one Postgres, of which one goes through PgBouncer in transaction mode. They take turns. */
export const pooler: Scenario = {
  summary: 'the time until a publish is accepted behind PgBouncer in transaction mode, against a direct connection',
  targets: { sqlite: [], postgres: [{ figure: 'p99Ratio', atMost: 2 }] },

  async run(bench): Promise<Figures> {
    if (bench.store !== 'postgres') throw new Error('a pooler needs --store postgres')
    if (pgbouncerVersion === undefined) throw new Error('PgBouncer is not installed')
    const { receiver, urls } = await startReceiving(bench, 2)
    const load = startChild<LoadCommands>('load', bench.ends)
    const open = async (name: string, place: string, receiverUrl: string) => {
      const server = await startServer(bench, place)
      const url = await setUp(server.api, name, [{ url: receiverUrl, concurrency: connections }])
      const measure = async (forSeconds: number): Promise<Slice> => {
        await receiver.ask('reset', 'ids')
        const before = spent(bench, server)
        const sent = await load.ask('openLoop', { url, key: apiKey, connections, rate, seconds: forSeconds })
        assertAccepted(sent)
        const delivered = await receiver.ask('until', { count: sent.accepted, quietMs: 5000 })
        if (delivered < sent.accepted) throw new Error(`${sent.accepted} were accepted, but only ${delivered} came`)
        const after = spent(bench, server)
        return {
          acceptP50Ms: sent.latency.p50Ms,
          acceptP99Ms: sent.latency.p99Ms,
          arriveP99Ms: latencyFigures(journey(sent, await receiver.ask('records')).sinceSent).p99Ms,
          cpuUs: (after.cpuUs - before.cpuUs) / sent.accepted,
          postgresUs: (after.postgresUs - before.postgresUs) / sent.accepted,
        }
      }
      await measure(warmUpSeconds)
      return { server, measure }
    }
    bench.note('warming up both')
    const [directUrl = '', pooledUrl = ''] = urls
    const direct = await open('direct', await emptyStore(bench, 'direct'), directUrl)
    const behind = await startPgBouncer(await emptyStore(bench, 'pooled'), { pool_mode: 'transaction' })
    bench.ends.defer(() => behind.close())
    const pooled = await open('pooled', behind.url, pooledUrl)
    const slices: { direct: Slice[]; pooled: Slice[] } = { direct: [], pooled: [] }
    for (let round = 1; round <= rounds; round++) {
      bench.note(`round ${round} of ${rounds}`)
      slices.direct.push(await direct.measure(seconds))
      slices.pooled.push(await pooled.measure(seconds))
    }
    for (const { server } of [direct, pooled]) await server.stop()
    const of = (name: keyof typeof slices, figure: keyof Slice) => median(slices[name].map((slice) => slice[figure]))
    return {
      p99Ratio: of('pooled', 'acceptP99Ms') / of('direct', 'acceptP99Ms'),
      pooledP99Ms: of('pooled', 'acceptP99Ms'),
      directP99Ms: of('direct', 'acceptP99Ms'),
      pooledP50Ms: of('pooled', 'acceptP50Ms'),
      directP50Ms: of('direct', 'acceptP50Ms'),
      pooledSentToArrivedP99Ms: of('pooled', 'arriveP99Ms'),
      directSentToArrivedP99Ms: of('direct', 'arriveP99Ms'),
      pooledCpuUs: of('pooled', 'cpuUs'),
      directCpuUs: of('direct', 'cpuUs'),
      pooledPostgresUs: of('pooled', 'postgresUs'),
      directPostgresUs: of('direct', 'postgresUs'),
      pgbouncer: pgbouncerVersion,
    }
  },
}

function spent(bench: Bench, { pid }: Server): { readonly cpuUs: number; readonly postgresUs: number } {
  return { cpuUs: threadTime(pid).allUs, postgresUs: postgresUs(bench) }
}
