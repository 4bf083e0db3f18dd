import { callApi } from '../api.ts'
import type { Bench, Figures, Scenario, Target } from '../bench.ts'
import { type Child, startChild } from '../child.ts'
import type { LoadCommands } from '../load.ts'
import { machineNow } from '../machine-clock.ts'
import { addTenants, type Tenant } from '../many-endpoints.ts'
import { median } from '../percentile.ts'
import { assertAccepted, type Receiving, startReceiving } from '../receiving.ts'
import { apiKey, type Server, startServer } from '../server.ts'
import { addMessages, emptyStore, withStore } from '../store-place.ts'

const endpointsEach = 100
/** One in a hundred has work. The reference has these alone. */
const activeTenants = 100
const tenantsInAll = { few: activeTenants, many: 10_000 }
const origins = 100
const connections = 16
/** Publishes that warm up, and those that are measured: to each active tenant in turn, for all of its endpoints. */
const warmUp = 100
const measured = 500
const liveRate = 10
const examinations = 20
const idleSeconds = 20

const targets: readonly Target[] = [
  { figure: 'firstDeliveryMs', atMost: 2000 },
  { figure: 'doctorMs', atMost: 100 },
  { figure: 'doctorTurnMs', atMost: 20 },
  { figure: 'idlePercent', atMost: 0.5 },
  { figure: 'publishRatio', atMost: 1.2 },
]

/** A million endpoints, most of which have nothing to do: they may cost nothing but disk. */
export const tenants: Scenario = {
  summary: '1,000,000 endpoints of 10,000 applications, 1 % of them active, against those 10,000 alone',
  targets: { sqlite: targets, postgres: targets },

  async run(bench): Promise<Figures> {
    const receiving = await startReceiving(bench, origins)
    const load = startChild<LoadCommands>('load', bench.ends)
    const few = await measure(bench, receiving, load, tenantsInAll.few)
    const many = await measure(bench, receiving, load, tenantsInAll.many)
    return {
      firstDeliveryMs: many.firstDeliveryMs,
      doctorMs: many.doctorMs,
      doctorTurnMs: many.doctorTurnMs,
      liveTurnMs: many.liveTurnMs,
      idlePercent: many.idlePercent,
      idleTurnMs: many.idleTurnMs,
      publishRatio: many.publishP50Ms / few.publishP50Ms,
      publishP50Ms: many.publishP50Ms,
      publishP99Ms: many.publishP99Ms,
      cpuUsPerDelivery: many.cpuUsPerDelivery,
      rssMb: many.rssMb,
      aloneFirstDeliveryMs: few.firstDeliveryMs,
      aloneDoctorMs: few.doctorMs,
      aloneDoctorTurnMs: few.doctorTurnMs,
      aloneLiveTurnMs: few.liveTurnMs,
      aloneIdlePercent: few.idlePercent,
      alonePublishP50Ms: few.publishP50Ms,
      alonePublishP99Ms: few.publishP99Ms,
      aloneCpuUsPerDelivery: few.cpuUsPerDelivery,
      aloneRssMb: few.rssMb,
    }
  },
}

/** Measures a server on a store with that many applications, of which the first hundred are active. */
async function measure(bench: Bench, { receiver, urls }: Receiving, load: Child<LoadCommands>, applications: number) {
  bench.note(`making ${applications * endpointsEach} endpoints`)
  const place = await emptyStore(bench, `tenants_${applications}`)
  const all = await addTenants(place, applications, endpointsEach, (n) => urls[n % urls.length] as string)
  const active = all.slice(0, activeTenants)
  await layOut(place, active)

  bench.note('the first deliveries after the start')
  await receiver.ask('reset', 'counts')
  const startedAt = machineNow()
  const server = await startServer(bench, place)
  await arrived(receiver, active.length * endpointsEach)
  const { firstAt } = await receiver.ask('totals')

  bench.note('publishes to active tenants')
  const url = active.map(({ id }) => `${server.api}/app/${id}/msg`)
  const publish = async (count: number) => {
    await receiver.ask('reset', 'counts')
    const before = await server.spent()
    const report = await load.ask('closedLoop', { url, key: apiKey, connections, seconds: 60, count })
    assertAccepted(report)
    await arrived(receiver, count * endpointsEach)
    const after = await server.spent()
    return { ...report.latency, cpuUs: (after.cpuUs - before.cpuUs) / (count * endpointsEach) }
  }
  await publish(warmUp)
  const published = await publish(measured)

  bench.note('the doctor beside a live stream')
  const seconds = Math.ceil(examinations / 2)
  await receiver.ask('reset', 'counts')
  await server.spent()
  const live = load.ask('openLoop', { url, key: apiKey, connections, rate: liveRate, seconds })
  const alone = await live
  assertAccepted(alone)
  const { longestTurnMs: liveTurnMs } = await server.spent()
  const beside = load.ask('openLoop', { url, key: apiKey, connections, rate: liveRate, seconds })
  const doctor = await examine(server)
  assertAccepted(await beside)
  await arrived(receiver, 2 * liveRate * seconds * endpointsEach)

  bench.note(`${idleSeconds} s without a publish`)
  await pause(5)
  const before = await server.spent()
  await pause(idleSeconds)
  const after = await server.spent()
  const rssMb = server.peakRssMb()
  await server.stop()
  return {
    firstDeliveryMs: firstAt - startedAt,
    ...doctor,
    liveTurnMs,
    idlePercent: (after.cpuUs - before.cpuUs) / ((idleSeconds * 1e6) / 100),
    idleTurnMs: after.longestTurnMs,
    publishP50Ms: published.p50Ms,
    publishP99Ms: published.p99Ms,
    cpuUsPerDelivery: published.cpuUs,
    rssMb,
  }
}

/** One message for each active tenant waits when the server starts. */
async function layOut(place: string, active: readonly Tenant[]): Promise<void> {
  await withStore(place, async (store) => {
    for (const { app, endpoints } of active) await addMessages(store, app, 1, () => endpoints)
  })
}

async function arrived(receiver: Receiving['receiver'], count: number): Promise<void> {
  const delivered = await receiver.ask('until', { count, quietMs: 20_000 })
  if (delivered < count) throw new Error(`only ${delivered} of ${count} deliveries came, then none for 20 s`)
}

/** Examines the system again and again; the first examination opens connections and reads what no other has read. */
async function examine(server: Server): Promise<{ readonly doctorMs: number; readonly doctorTurnMs: number }> {
  const took: number[] = []
  await server.spent()
  for (let n = 0; n < examinations; n++) {
    const at = machineNow()
    await callApi('GET', `${server.api}/doctor`)
    took.push(machineNow() - at)
    await pause(0.2)
  }
  return { doctorMs: median(took), doctorTurnMs: (await server.spent()).longestTurnMs }
}

function pause(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000))
}
