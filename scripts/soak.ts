import { DatabaseSync } from 'node:sqlite'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { openPostgresServer } from '../test/store/postgres-server.ts'
import { type ChaosLoad, endpointsOf, openChaosLoad } from './chaos-load.ts'

/**
 * Loads a server with a misbehaving receiver, and then compares the counts of the receiver, the metrics, the history that the
 * dashboard shows, and the database. Prints the four columns; exits with 1 when two of them differ.
 *
 *     npm run soak                            ten minutes on SQLite
 *     npm run soak -- --seconds 60 --store postgres
 */
const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '600' },
    store: { type: 'string', default: 'sqlite' },
    seed: { type: 'string', default: 'soak' },
  },
})

interface Counts {
  readonly accepted: number | null
  readonly attempts: number
  readonly delivered: number
  readonly failed: number
  readonly dead: number | null
}

const none: Counts = { accepted: null, attempts: 0, delivered: 0, failed: 0, dead: null }
const countRows = `
  select (select count(*) from message) as accepted, count(*) as attempts,
         count(*) filter (where code = 'delivered') as delivered, count(*) filter (where code <> 'delivered') as failed,
         (select count(*) from dead) as dead
    from attempt`

const postgres = values.store === 'postgres' ? await openPostgresServer() : undefined
const load = await openChaosLoad({ seed: values.seed, ...(postgres && { postgres: postgres.url }) })
try {
  console.log(`Publishing for ${values.seconds} s on ${values.store} (seed ${values.seed}), dashboard at ${load.url} …`)
  await load.publish(Number(values.seconds) * 1000)
  console.log('Pausing every endpoint, and waiting for the attempts under way …')
  for (const path of endpointsOf()) await load.ask('POST', `${path}/pause`)
  await until('nothing is under way', async () => {
    const metrics = await scrape(load)
    return metrics.sum('sluice_attempts_in_flight') + metrics.sum('sluice_attempts_unrecorded') === 0
  })
  const columns = { receiver: receivedBy(load), metrics: await countedBy(load), dashboard: none, database: none }
  columns.database = postgres === undefined ? inSqlite(load.store) : await inPostgres(postgres.url)
  // Each process writes its history every few seconds.
  await until('the history is written', async () => {
    columns.dashboard = await shownBy(load)
    return columns.dashboard.attempts >= columns.metrics.attempts
  })
  process.exitCode = print(columns) ? 0 : 1
} finally {
  await load.stop()
  await postgres?.close()
}

function receivedBy({ accepted, received: { attempts, by } }: ChaosLoad): Counts {
  const delivered = by.success + by.drip
  return { accepted, attempts, delivered, failed: attempts - delivered, dead: null }
}

async function countedBy(load: ChaosLoad): Promise<Counts> {
  const metrics = await scrape(load)
  const attempts = metrics.sum('sluice_attempts_total')
  const delivered = metrics.sum('sluice_deliveries_ended_total', 'end="delivered"')
  const dead = metrics.sum('sluice_dead_letters_total')
  const succeeded = metrics.sum('sluice_attempts_total', 'outcome="delivered"')
  return {
    accepted: metrics.sum('sluice_messages_accepted_total'),
    attempts,
    delivered,
    failed: attempts - succeeded,
    dead,
  }
}

async function shownBy(load: ChaosLoad): Promise<Counts> {
  const since = new Date(Date.now() - Number(values.seconds) * 1000 - 600_000).toISOString()
  const { totals } = (await load.ask('GET', `/history?since=${since}`)) as { totals: Record<string, number> }
  const of = (name: string) => totals[name] as number
  const attempts = ['status2xx', 'status3xx', 'status4xx', 'status5xx', 'statusNone'].reduce(
    (sum, name) => sum + of(name),
    0,
  )
  return {
    accepted: of('accepted'),
    attempts,
    delivered: of('delivered'),
    failed: of('failed'),
    dead: of('dead') + of('dropped') + of('expired'),
  }
}

function inSqlite(path: string): Counts {
  const database = new DatabaseSync(path, { readOnly: true })
  const row = database.prepare(countRows).get() as unknown as Counts
  database.close()
  return { ...row }
}

async function inPostgres(url: string): Promise<Counts> {
  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query(countRows)
  await client.end()
  return Object.fromEntries(Object.entries(rows[0]).map(([name, value]) => [name, Number(value)])) as unknown as Counts
}

async function scrape({ url, key }: ChaosLoad): Promise<{ sum(name: string, label?: string): number }> {
  // A text is kept for a second.
  await new Promise((resolve) => setTimeout(resolve, 1100))
  const lines = await (await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${key}` } })).text()
  return {
    sum(name, label = '') {
      const those = lines.split('\n').filter((line) => /^\w+/.exec(line)?.[0] === name && line.includes(label))
      return those.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
    },
  }
}

async function until(state: string, holds: () => Promise<boolean>): Promise<void> {
  const limit = performance.now() + 120_000
  while (!(await holds())) {
    if (performance.now() > limit) throw new Error(`after two minutes it is not so that ${state}`)
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
}

/** Prints the columns; answers whether they agree. */
function print(columns: Readonly<Record<string, Counts>>): boolean {
  const names = ['accepted', 'attempts', 'delivered', 'failed', 'dead'] as const
  const rows = names.map((name) => {
    const counts = Object.values(columns).map((column) => column[name])
    const known = counts.filter((count) => count !== null)
    return { name, counts, agree: known.every((count) => count === known[0]) }
  })
  console.table(
    Object.fromEntries(
      rows.map(({ name, counts, agree }) => [
        name,
        {
          ...Object.fromEntries(Object.keys(columns).map((column, i) => [column, counts[i] ?? '–'])),
          agree: agree ? 'yes' : 'NO',
        },
      ]),
    ),
  )
  return rows.every(({ agree }) => agree)
}
