import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dialects, Target } from './attack.ts'

for (const dialect of dialects) {
  test(`${dialect}: an import of a million empty lines is refused without looking at them all`, async (t) => {
    const target = await Target.share(t, dialect)
    const app = await target.newApplication()
    await target.measure('4 × a million empty lines', async () => {
      for (let i = 0; i < 4; i++) {
        const { status } = await target.call('POST', `/app/${app}/dead/import`, {
          body: Buffer.alloc(1_000_000, '\n'),
          headers: { 'content-type': 'application/jsonl' },
        })
        assert.equal(status, 422)
      }
    })
  })
}
