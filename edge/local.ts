import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { Miniflare } from 'miniflare'
import { buildWorker } from './build.ts'

/** The settings of an edge on this machine: the variables and secrets of the Worker, and the place of its storage. */
export interface EdgeSettings {
  readonly variables: Readonly<Record<string, unknown>>
  /** Entries of the KV namespace ROUTES, by name. */
  readonly routes?: Readonly<Record<string, object>>
  readonly folder: string
  readonly port: number
}

/** The Durable Objects of the Worker by their bindings, and its version of the runtime, as in wrangler.toml. */
export const bindings = { LEDGER: 'DeliveryLedger', OUTBOX: 'Outbox' } as const
export const compatibility = { date: '2026-07-01', flags: ['nodejs_compat'] } as const
/** The name of the Worker, which is also that of its folder of Durable Objects. */
export const workerName = 'edge'

/** Runs the Worker in workerd, the runtime of Cloudflare, on 127.0.0.1. Its storage is a folder, which the next run finds. */
export async function openEdge({ variables, routes, folder, port }: EdgeSettings): Promise<Miniflare> {
  const edge = new Miniflare({
    name: workerName,
    host: '127.0.0.1',
    port,
    modules: [{ type: 'ESModule', path: 'worker.js', contents: await buildWorker() }],
    compatibilityDate: compatibility.date,
    compatibilityFlags: [...compatibility.flags],
    bindings: variables as Record<string, never>,
    durableObjects: Object.fromEntries(
      Object.entries(bindings).map(([binding, className]) => [binding, { className, useSQLite: true }]),
    ),
    kvNamespaces: ['DELIVERED', ...(routes === undefined ? [] : ['ROUTES'])],
    defaultPersistRoot: folder,
    unsafeInspectDurableObjects: true,
  })
  for (const [name, route] of Object.entries(routes ?? {})) {
    const namespace = await edge.getKVNamespace('ROUTES')
    await namespace.put(name, JSON.stringify(route))
  }
  return edge
}

const usage = 'Usage: npm run local -w edge -- VARIABLES.json [--port 8787] [--folder edge/dist/state]'

/** The Worker with the variables of a file, until it is interrupted. */
async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      port: { type: 'string', default: '8787' },
      folder: { type: 'string', default: join(import.meta.dirname, 'dist/state') },
    },
  })
  const [file, ...more] = positionals
  if (file === undefined || more.length > 0) throw new Error(usage)
  // npm runs scripts in the folder of the workspace; the path counts from where the command was typed.
  const path = resolve(process.env.INIT_CWD ?? '.', file)
  const variables = variablesOf(readFileSync(path, 'utf8'), file)
  const edge = await openEdge({ variables, folder: values.folder, port: Number(values.port) })
  const url = (await edge.ready).href
  const health = await edge.dispatchFetch(new URL('/-/health', url))
  console.log(`The edge runs on ${url}: ${await health.text()}`)
  for (const name of Object.keys(variables).filter((name) => name.startsWith('ROUTE_'))) {
    console.log(`  ${new URL(name.slice('ROUTE_'.length), url)}`)
  }
  process.once('SIGINT', () => void edge.dispose())
  process.once('SIGTERM', () => void edge.dispose())
}

function variablesOf(text: string, file: string): Record<string, unknown> {
  const example = '{ "ROUTE_orders": { "mode": "relay", "to": "https://…" }, "SECRET_orders": "whsec_…" }'
  try {
    const variables = JSON.parse(text) as unknown
    if (typeof variables === 'object' && variables !== null && !Array.isArray(variables)) return { ...variables }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new Error(`${file} is no JSON (${error.message}). Write: ${example}`, { cause: error })
  }
  throw new Error(`${file} has no object of variables. Write: ${example}`)
}

if (import.meta.main) {
  main().catch((error: Error) => {
    console.error(error.message)
    // Miniflare would keep a process alive whose workerd did not start.
    process.exit(1)
  })
}
