import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

/** The edge worker bundles the folder. Cloudflare has node:crypto and node:buffer, but no file system and no sockets. */
test('the verifiers need nothing of Node but crypto and buffers', async () => {
  const input = fileURLToPath(new URL('../../src/sources/verifier.ts', import.meta.url))
  const bundle = await rolldown({
    input,
    platform: 'neutral',
    external: /^node:/,
    resolve: { mainFields: ['module', 'main'] },
  })
  const { output } = await bundle.generate({ format: 'esm', minify: true, codeSplitting: false })
  await bundle.close()
  assert.equal(output.length, 1)
  const [chunk] = output
  assert.deepEqual([...chunk.imports].sort(), ['node:crypto'])
  // A Worker has three megabytes; the verifiers and jose take about 60 kB of it.
  assert.ok(chunk.code.length < 100_000, `${chunk.code.length} bytes`)
})
