import { setUp } from '../api.ts'
import type { Figures, Scenario } from '../bench.ts'
import { startChild } from '../child.ts'
import type { LoadCommands } from '../load.ts'
import { latencyFigures } from '../percentile.ts'
import { assertAccepted, type Journey, journey, startReceiving } from '../receiving.ts'
import type { AcceptCommands } from '../reference-accept.ts'
import { apiKey, startServer } from '../server.ts'
import { emptyStore } from '../store-place.ts'

const rate = 1000
const seconds = 20
const rawSeconds = 8
const warmUpSeconds = 2
const connections = 64

/** One application with one endpoint; 1,000 messages/s, sent on time whatever the answers do. */
export const latency: Scenario = {
  summary: 'from accepted to arrived at 1,000 messages/s, against a Fastify route that forwards and stores nothing',
  targets: {
    sqlite: [
      { figure: 'p50Ms', atMost: 10 },
      { figure: 'p99Ms', atMost: 60 },
    ],
    postgres: [
      { figure: 'p50Ms', atMost: 10 },
      { figure: 'p99Ms', atMost: 60 },
    ],
  },

  async run(bench): Promise<Figures> {
    const { receiver, urls } = await startReceiving(bench, 2)
    const [target = '', rawTarget = ''] = urls
    const load = startChild<LoadCommands>('load', bench.ends)
    const reference = startChild<AcceptCommands>('reference-accept', bench.ends)
    const rawUrl = await reference.ask('listen', { forwardTo: rawTarget, connections })
    const server = await startServer(bench, await emptyStore(bench, 'latency'))
    const url = await setUp(server.api, 'bench', [{ url: target, concurrency: connections }])

    const measure = async (to: string, forSeconds: number): Promise<Journey> => {
      await receiver.ask('reset', 'ids')
      const sent = await load.ask('openLoop', { url: to, key: apiKey, connections, rate, seconds: forSeconds })
      assertAccepted(sent)
      const delivered = await receiver.ask('until', { count: sent.accepted, quietMs: 5000 })
      if (delivered < sent.accepted) throw new Error(`${sent.accepted} were accepted, but only ${delivered} came`)
      return journey(sent, await receiver.ask('records'))
    }
    bench.note('warming up both')
    await measure(rawUrl, warmUpSeconds)
    await measure(url, warmUpSeconds)
    bench.note(`sending ${rate} messages/s through the reference`)
    const raw = await measure(rawUrl, rawSeconds)
    bench.note(`sending ${rate} messages/s through Sluice`)
    const durable = await measure(url, seconds)
    await server.stop()

    const figures = latencyFigures(durable.sinceAccepted)
    const rawFigures = latencyFigures(raw.sinceSent)
    const sentFigures = latencyFigures(durable.sinceSent)
    return {
      ...figures,
      sentP50Ms: sentFigures.p50Ms,
      sentP99Ms: sentFigures.p99Ms,
      rawSentP50Ms: rawFigures.p50Ms,
      rawSentP99Ms: rawFigures.p99Ms,
      ratio: sentFigures.p50Ms / rawFigures.p50Ms,
      messages: durable.sinceAccepted.length,
      rssMb: server.peakRssMb(),
    }
  },
}
