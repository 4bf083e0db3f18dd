import { type EdgeSettings, openEdge, workerName } from '../../edge/local.ts'

interface Call {
  readonly call: number
  readonly object: readonly [className: string, name: string]
  readonly statement: string
}

/** Runs the Worker for a test. The process ends with its parent. */
const edge = await openEdge(JSON.parse(process.argv[2] as string) as EdgeSettings)
process.on('disconnect', () => void edge.dispose().finally(() => process.exit()))
process.on('message', async ({ call, object: [className, object], statement }: Call) => {
  try {
    const storage = await edge.unsafeGetDurableObjectStorage(workerName, className, { name: object })
    process.send?.({ call, rows: await storage.exec(statement) })
  } catch (error) {
    process.send?.({ call, problem: String(error) })
  }
})
process.send?.({ url: (await edge.ready).href })
