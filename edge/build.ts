import { join } from 'node:path'
import { rolldown } from 'rolldown'

/**
 * Bundles the Worker into one module, as `wrangler deploy` and the tests use it. The workspace packages are bundled from
 * their sources, so nothing has to be built before.
 */
export async function buildWorker(): Promise<string> {
  const bundle = await rolldown({
    input: join(import.meta.dirname, 'src/worker.ts'),
    external: [/^node:/, /^cloudflare:/],
    platform: 'browser',
    resolve: { conditionNames: ['sluice-source', 'workerd', 'worker', 'import', 'default'] },
    onLog(level, log) {
      if (level === 'warn') throw new Error(log.message)
    },
  })
  const { output } = await bundle.generate({ format: 'esm', codeSplitting: false })
  return output[0].code
}

if (import.meta.main) {
  const { mkdirSync, writeFileSync } = await import('node:fs')
  const folder = join(import.meta.dirname, 'dist')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'worker.js'), await buildWorker())
  console.log(`edge/dist/worker.js is built`)
}
