import { meanOf, runBareLoop } from '../bare-loop.ts'
import type { Bench, Figures, Scenario } from '../bench.ts'
import { startChild } from '../child.ts'
import { drain } from '../drain.ts'
import { startReceivers } from '../receivers.ts'
import type { SendCommands } from '../reference-send.ts'
import { addEndpoints, addMessages, emptyStore, withStore } from '../store-place.ts'

const endpoints = 12
// Of 4, 8, 16 and 32 connections for each endpoint, the bare loop is fastest with 8; so both use 8.
const concurrency = 8
const messages = { sqlite: 20_000, postgres: 15_000 }

/** Drains a backlog of one application to 12 endpoints on 12 origins. */
export const throughput: Scenario = {
  summary: 'durable deliveries per second out of a backlog, against a bare undici loop that stores nothing',
  targets: {
    sqlite: [{ figure: 'ratio', atLeast: 0.4 }],
    postgres: [{ figure: 'ratio', atLeast: 0.25 }],
  },

  async run(bench): Promise<Figures> {
    const receivers = await startReceivers(bench, endpoints)
    const reference = startChild<SendCommands>('reference-send', bench.ends)
    const place = await emptyStore(bench, 'throughput')
    const count = messages[bench.store] * endpoints
    bench.note(`storing ${count} deliveries`)
    await seed(bench, place, receivers.urls)

    // The reference runs before and after, so that a machine that slows down or speeds up in between favours neither.
    const before = await runBareLoop(bench, receivers, reference, concurrency)
    bench.note('draining')
    const drained = await drain(bench, receivers, place, count)
    const raw = meanOf(before, await runBareLoop(bench, receivers, reference, concurrency))
    const { pending, attempts } = await withStore(place, (store) => store.counts())
    if (pending !== 0 || attempts !== count) {
      throw new Error(`${count} deliveries came, but the store has ${attempts} attempts and ${pending} still pending`)
    }

    return {
      deliveriesPerSec: drained.perSec,
      rawPerSec: raw.perSec,
      ratio: drained.perSec / raw.perSec,
      mainUs: drained.mainUs,
      rawMainUs: raw.mainUs,
      mainRatio: raw.mainUs / drained.mainUs,
      allUs: drained.allUs,
      rawAllUs: raw.allUs,
      allRatio: raw.allUs / drained.allUs,
      mainWaitUs: drained.mainWaitUs,
      rawMainWaitUs: raw.mainWaitUs,
      ...(bench.store === 'postgres' && { postgresUs: drained.postgresUs }),
      statementsPerDelivery: drained.statementsPerDelivery,
      rssMb: drained.rssMb,
      deliveries: count,
      connections: drained.connections,
    }
  },
}

async function seed(bench: Bench, place: string, urls: readonly string[]): Promise<void> {
  await withStore(place, async (store) => {
    const app = await store.createApplication({ name: 'bench', uid: null, throttleRate: null, metadata: {} })
    const made = await addEndpoints(
      store,
      app.key,
      urls.map((url) => ({ url, concurrency })),
    )
    const keys = made.map(({ key }) => key)
    await addMessages(store, app.key, messages[bench.store], () => keys)
  })
}
