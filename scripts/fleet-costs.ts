import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import pg from 'pg'
import { threadTime } from '../bench/thread-time.ts'
import { openSluice } from '../src/index.ts'
import { systemClock } from '../src/runtime/clock.ts'
import { systemRandom, systemRandomText } from '../src/runtime/random.ts'
import { openPostgresStore } from '../src/store/postgres/open.ts'
import { PostgresProcess } from '../test/store/postgres-process.ts'
import { testVault } from '../test/store/test-vault.ts'

/** Processor time and bytes that a real Postgres takes for what a fleet asks of it. */
export interface Costs {
  /** A renewal that counts no lanes, by the number of living workers, in µs. */
  readonly renewUs: readonly (readonly [workers: number, us: number])[]
  /** A count of the lanes to share, for each lane, in µs. */
  readonly countPerLaneUs: number
  /** A claim that finds nothing due. */
  readonly idleClaimUs: number
  /** A notification, for each session that listens. */
  readonly notifyPerListenerUs: number
  /** A delivery from publish to settle, in a steady stream. */
  readonly deliveryUs: number
  readonly deliveryWalBytes: number
}

interface Measuring {
  readonly parent: string
  readonly lanes: number
  readonly workers: readonly number[]
  readonly deliveries: number
}

const leaseMs = 600_000

/** Measures on a server of its own. Beside other load the times are a little higher; a share of the machine changes them little. */
export async function measureCosts({ parent, lanes, workers, deliveries }: Measuring): Promise<Costs> {
  const server = await PostgresProcess.start(parent, {
    shared_buffers: '512MB',
    max_wal_size: '4GB',
    autovacuum: 'off',
  })
  const first = new pg.Client(server.url)
  await first.connect()
  await first.query('create database fleet')
  const url = new URL(server.url)
  url.pathname = '/fleet'
  const admin = new pg.Client(url.href)
  await admin.connect()
  const usOf = async (calls: number, call: () => Promise<unknown>): Promise<number> => {
    for (let i = 0; i < 10; i++) await call()
    const before = serverUs(server.pid)
    for (let i = 0; i < calls; i++) await call()
    return (serverUs(server.pid) - before) / calls
  }
  try {
    const delivered = await deliver(server, first, deliveries)
    const context = { clock: systemClock, random: systemRandom, randomText: systemRandomText, vault: testVault }
    const store = await openPostgresStore(context, { url: url.href })
    const own = await store.join({ leaseMs, description: 'measured' })
    await admin.query(`
      insert into lane (endpoint, app, owner) select 1000 + g, 1 + g % 1000, ${own} from generate_series(1, ${lanes}) g`)
    await admin.query('vacuum analyze lane')
    const renewUs: [number, number][] = []
    for (const count of [...workers].sort((a, b) => a - b)) {
      await admin.query(`
        insert into worker (description, joined_at, lease_ms, lease_until)
        select 'w', 0, ${leaseMs}, (extract(epoch from now()) * 1000)::bigint + ${leaseMs}
          from generate_series(1, ${count} - (select count(*) from worker where ended_at is null)::integer)`)
      await admin.query('vacuum analyze worker')
      renewUs.push([count, await usOf(1000, () => store.renew(own, leaseMs, undefined, false))])
    }
    const plain = renewUs[0]?.[1] ?? 0
    await admin.query(`update worker set ended_at = 1 where id <> ${own} and id > ${own} + 1`)
    const counted = await usOf(20, () => store.renew(own, leaseMs, undefined, true))
    const idleClaimUs = await usOf(2000, () => store.claim(own, 64))
    await store.close()
    return {
      renewUs,
      countPerLaneUs: Math.max(0, counted - plain) / lanes,
      idleClaimUs,
      notifyPerListenerUs: await notifyUs(url.href, admin, usOf),
      ...delivered,
    }
  } finally {
    await Promise.all([first.end(), admin.end()])
    await server.remove()
  }
}

/** The processor time that each listening session adds to a notification. */
async function notifyUs(
  url: string,
  admin: pg.Client,
  usOf: (calls: number, call: () => Promise<unknown>) => Promise<number>,
): Promise<number> {
  const listeners: pg.Client[] = []
  const notify = () => admin.query("select pg_notify('walls', 'x')")
  const listen = async (count: number) => {
    while (listeners.length < count) {
      const client = new pg.Client(url)
      listeners.push(client)
      await client.connect()
      await client.query('listen walls')
    }
    return usOf(3000, notify)
  }
  const few = await listen(2)
  const many = await listen(62)
  await Promise.all(listeners.map((client) => client.end()))
  return Math.max(0, many - few) / 60
}

/** Delivers through the real program in this process, to a receiver in this process. */
async function deliver(server: PostgresProcess, admin: pg.Client, count: number) {
  let arrived = 0
  const receiver = createServer((request, response) => {
    request.resume()
    arrived++
    response.end()
  })
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`
  const sluice = await openSluice({
    store: server.url,
    encryptionKey: Buffer.alloc(32, 1).toString('base64'),
    allowNetworks: ['127.0.0.0/8'],
    allowHttp: true,
    logLevel: 'error',
  })
  try {
    await sluice.applications.create({ name: 'walls', uid: 'walls' })
    for (let i = 0; i < 20; i++) await sluice.endpoints.create('walls', { url, eventTypes: [`walls.n${i}`] })
    const publish = (from: number, to: number) =>
      Promise.all(
        Array.from({ length: to - from }, (_, i) =>
          sluice.publish('walls', { eventType: `walls.n${(from + i) % 20}`, payload: { n: i, text: 'x'.repeat(200) } }),
        ),
      )
    const run = async (messages: number) => {
      const target = arrived + messages
      for (let sent = 0; sent < messages; sent += 200) await publish(sent, Math.min(messages, sent + 200))
      while (arrived < target) await new Promise((resolve) => setTimeout(resolve, 5))
      await new Promise((resolve) => setTimeout(resolve, 300))
    }
    await run(1000)
    const wal = async () => Number((await admin.query("select pg_current_wal_insert_lsn() - '0/0' as n")).rows[0].n)
    await admin.query('checkpoint')
    const [us, bytes] = [serverUs(server.pid), await wal()]
    await run(count)
    return {
      deliveryUs: (serverUs(server.pid) - us) / count,
      deliveryWalBytes: ((await wal()) - bytes) / count,
    }
  } finally {
    await sluice.close()
    receiver.closeAllConnections()
    await new Promise((resolve) => receiver.close(resolve))
  }
}

/** The processor time of a server's processes so far, in microseconds, by the scheduler's own count. Those that ended are missing. */
function serverUs(pid: number): number {
  let sum = threadTime(pid).allUs
  for (const name of readdirSync('/proc')) {
    if (/^\d+$/.test(name) && parentOf(name) === pid) sum += threadTime(Number(name)).allUs || 0
  }
  return sum
}

function parentOf(pid: string): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
  } catch {
    return undefined
  }
}
