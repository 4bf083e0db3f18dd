import { Miniflare } from 'miniflare'
import { buildWorker } from '../../edge/build.ts'

/** The settings of an edge: the variables and secrets of the Worker, and the place of its storage. */
export interface EdgeSettings {
  readonly variables: Readonly<Record<string, unknown>>
  readonly folder: string
  readonly port: number
}

/** The Durable Objects of the Worker by their bindings, and its version of the runtime, as in wrangler.toml. */
export const bindings = { LEDGER: 'DeliveryLedger', OUTBOX: 'Outbox' } as const
export const compatibility = { date: '2026-07-01', flags: ['nodejs_compat'] } as const

/** The name of the Worker, which is also that of its folder of Durable Objects. */
const name = 'edge'

interface Call {
  readonly call: number
  readonly object: readonly [className: string, name: string]
  readonly statement: string
}

if (import.meta.main) await run(JSON.parse(process.argv[2] as string) as EdgeSettings)

/** Runs the Worker in workerd, with storage in a folder. The process ends with its parent. */
async function run({ variables, folder, port }: EdgeSettings): Promise<void> {
  const edge = new Miniflare({
    name,
    port,
    modules: [{ type: 'ESModule', path: 'worker.js', contents: await buildWorker() }],
    compatibilityDate: compatibility.date,
    compatibilityFlags: [...compatibility.flags],
    bindings: variables as Record<string, never>,
    durableObjects: Object.fromEntries(
      Object.entries(bindings).map(([binding, className]) => [binding, { className, useSQLite: true }]),
    ),
    kvNamespaces: ['DELIVERED'],
    defaultPersistRoot: folder,
    unsafeInspectDurableObjects: true,
  })
  process.on('disconnect', () => void edge.dispose().finally(() => process.exit()))
  process.on('message', async ({ call, object: [className, object], statement }: Call) => {
    try {
      const storage = await edge.unsafeGetDurableObjectStorage(name, className, { name: object })
      process.send?.({ call, rows: await storage.exec(statement) })
    } catch (error) {
      process.send?.({ call, problem: String(error) })
    }
  })
  process.send?.({ url: (await edge.ready).href })
}
