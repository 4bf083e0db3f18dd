import assert from 'node:assert/strict'
import { test } from 'node:test'
import { begin, type Open } from './harness.ts'

export function condition(open: Open): void {
  test('the condition names the clock, the time of a write and the size of the database', async (t) => {
    const { store } = await begin(t, open)
    const found = await store.condition()
    assert.ok(found.commitMs >= 0 && found.commitMs < 60_000)
    assert.ok((found.bytes ?? 0) > 4096)
    if (store.dialect === 'sqlite') {
      const { path = '', freeBytes = 0, totalBytes = 0, network } = found.disk ?? {}
      assert.match(path, /sluice\.db$/)
      assert.ok(freeBytes > 0 && freeBytes <= totalBytes)
      assert.deepEqual([network, found.server], [null, null])
      assert.ok(found.logBytes !== null)
    } else {
      assert.deepEqual([found.disk, found.logBytes], [null, null])
      const { unsafe, synchronousCommit, autovacuum, connections } = found.server ?? {}
      assert.deepEqual([unsafe, synchronousCommit, autovacuum], [[], 'on', true])
      assert.ok((connections?.used ?? 0) > 0 && (connections?.used ?? 0) <= (connections?.limit ?? 0))
    }
  })
}
