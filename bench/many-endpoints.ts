import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import pg from 'pg'
import { encodeId } from '../src/domain/ids.ts'
import type { Application } from '../src/features/applications/noun.ts'
import type { Endpoint } from '../src/features/endpoints/rules.ts'
import { systemRandomText } from '../src/runtime/random.ts'
import { sealValue } from '../src/store/vault.ts'
import { addEndpoints, vault, withStore } from './store-place.ts'

/** An application, as the API names it, and the keys of its endpoints. */
export interface Tenant {
  readonly id: string
  readonly app: number
  readonly endpoints: readonly number[]
}

/** Endpoints that one statement copies. */
const rowsPerStatement = 5000

/**
 * Makes applications of many endpoints each, all with default settings. Making 100,000 of them through the store would take
 * longer than the measurement, so the first one is made that way, and its rows are copied under other keys.
 */
export async function addTenants(
  place: string,
  applications: number,
  endpointsEach: number,
  urlOf: (n: number) => string,
): Promise<Tenant[]> {
  const { apps, model } = await withStore(place, async (store) => {
    const apps: Application[] = []
    for (let n = 0; n < applications; n++) {
      apps.push(await store.createApplication({ name: `tenant ${n}`, uid: null, throttleRate: null, metadata: {} }))
    }
    const [model] = await addEndpoints(store, (apps[0] as Application).key, [{ url: urlOf(0) }])
    return { apps, model: model as Endpoint }
  })
  const tenants: Tenant[] = apps.map(({ id, key }) => ({ id, app: key, endpoints: [] }))
  const copies: Copy[] = []
  for (const [i, tenant] of tenants.entries()) {
    const endpoints = Array.from({ length: endpointsEach }, (_, n) => model.key + i * endpointsEach + n)
    tenants[i] = { ...tenant, endpoints }
    for (const [n, key] of endpoints.entries())
      if (key !== model.key) copies.push(copyOf(model, key, tenant.app, urlOf(n)))
  }
  if (place.startsWith('sqlite:')) copyInSqlite(place.slice('sqlite:'.length), model.key, copies)
  else await copyInPostgres(place, model.key, copies)
  return tenants
}

/** The columns in which an endpoint differs from the one that it is a copy of. */
interface Copy {
  readonly key: number
  readonly id: string
  readonly app: number
  readonly url: string
  readonly secrets: string
}

function copyOf({ secrets }: Endpoint, key: number, app: number, url: string): Copy {
  const sealed = sealValue(vault, secrets, { app, endpoint: key, field: 'secrets' }) as string
  return { key, id: encodeId('ep', key, systemRandomText), app, url, secrets: sealed }
}

function copyInSqlite(path: string, model: number, copies: readonly Copy[]): void {
  const db = new DatabaseSync(path)
  try {
    db.exec('begin immediate')
    for (const table of ['endpoint', 'lane'] as const) {
      const keyed = table === 'endpoint' ? 'key' : 'endpoint'
      const row = db.prepare(`select * from ${table} where ${keyed} = ?`).get(model) as Record<string, SQLInputValue>
      const columns = Object.keys(row)
      const insert = db.prepare(`insert into ${table} (${columns}) values (${columns.map(() => '?')})`)
      for (const copy of copies) {
        const values = { ...row, ...differing(table, copy) }
        insert.run(...columns.map((column) => values[column] ?? null))
      }
    }
    db.exec('commit')
  } finally {
    db.close()
  }
}

async function copyInPostgres(url: string, model: number, copies: readonly Copy[]): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    for (const table of ['endpoint', 'lane'] as const) {
      const keyed = table === 'endpoint' ? 'key' : 'endpoint'
      const { fields } = await client.query(`select * from ${table} limit 0`)
      const columns = fields.map(({ name }) => name)
      for (let at = 0; at < copies.length; at += rowsPerStatement) {
        const rows = copies.slice(at, at + rowsPerStatement).map((copy) => differing(table, copy))
        const changed = Object.keys(rows[0] ?? {})
        await client.query(
          `insert into ${table} (${columns})
           select ${columns.map((column) => (changed.includes(column) ? `copy.${column}` : `model.${column}`))}
             from ${table} as model, json_populate_recordset(null::${table}, $2) as copy where model.${keyed} = $1`,
          [model, JSON.stringify(rows)],
        )
      }
      await client.query(`vacuum analyze ${table}`)
    }
  } finally {
    await client.end()
  }
}

function differing(table: 'endpoint' | 'lane', { key, id, app, url, secrets }: Copy): Record<string, string | number> {
  return table === 'lane' ? { endpoint: key, app } : { key, id, app, url, secrets }
}
