import { Miniflare } from 'miniflare'
import { buildWorker } from '../../edge/build.ts'

/** The settings of an edge: the variables and secrets of the Worker, and the place of its storage. */
export interface EdgeSettings {
  readonly bindings: Readonly<Record<string, unknown>>
  readonly folder: string
  readonly port: number
}

/** The name of the Worker, which is also that of its folder of Durable Objects. */
const name = 'edge'

/** Runs the Worker in workerd, with storage in a folder. The process ends with its parent. */
const { bindings, folder, port } = JSON.parse(process.argv[2] as string) as EdgeSettings
const edge = new Miniflare({
  name,
  port,
  modules: [{ type: 'ESModule', path: 'worker.js', contents: await buildWorker() }],
  compatibilityDate: '2026-07-01',
  compatibilityFlags: ['nodejs_compat'],
  bindings: bindings as Record<string, never>,
  durableObjects: {
    LEDGER: { className: 'DeliveryLedger', useSQLite: true },
    OUTBOX: { className: 'Outbox', useSQLite: true },
  },
  kvNamespaces: ['DELIVERED'],
  defaultPersistRoot: folder,
  unsafeInspectDurableObjects: true,
})
process.on('disconnect', () => void edge.dispose().finally(() => process.exit()))
process.on(
  'message',
  async ({ call, object, statement }: { call: number; object: [string, string]; statement: string }) => {
    const [className, objectName] = object
    try {
      const storage = await edge.unsafeGetDurableObjectStorage(name, className, { name: objectName })
      process.send?.({ call, rows: await storage.exec(statement) })
    } catch (error) {
      process.send?.({ call, problem: String(error) })
    }
  },
)
const url = await edge.ready
process.send?.({ url: url.href })
