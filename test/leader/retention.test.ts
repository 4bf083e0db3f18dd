import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { firstKeyAt } from '../../src/domain/ids.ts'
import { RetentionSweep } from '../../src/leader/retention.ts'
import { begin, type Open } from '../store/conformance/harness.ts'
import { openPostgresHarness } from '../store/postgres-harness.ts'
import { openSqliteHarness } from '../store/sqlite-harness.ts'

const hour = 60 * 60 * 1000
const day = 24 * hour
const limits = { historyMs: 30 * day, deadMs: 30 * day }

function specification(open: Open): void {
  test('an application that keeps messages for an hour loses older ones that ended, and no other does', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const [brief, usual] = [await world.application(), await world.application()]
    await store.updateApplication(brief.key, { settings: { retentionSeconds: 3600, deadRetentionSeconds: 7200 } })
    const worker = await world.join()
    const old = async (app: typeof brief, end: 'delivered' | 'dead' | 'waiting') => {
      const endpoint = await world.endpoint(app)
      const { key } = await world.publish([endpoint])
      if (end !== 'waiting') {
        const [row] = await world.rows(endpoint)
        const verdict = end === 'dead' ? { state: 'dead', reason: 'exhausted' } : { state: 'delivered' }
        await world.settle(worker, world.settlement(endpoint, row as never, verdict as never))
      }
      const by = firstKeyAt(3 * hour)
      await world.harness.sql(`update message set key = key - ${by} where key = ${key}`)
      for (const table of ['pending', 'attempt', 'dead']) {
        await world.harness.sql(`update ${table} set message = message - ${by} where message = ${key}`)
      }
      await world.harness.sql(`update pending set since = since - ${3 * hour} where message = ${key - by}`)
      return key - by
    }
    const ended = await old(brief, 'delivered')
    const dead = await old(brief, 'dead')
    const waiting = await old(brief, 'waiting')
    const others = await old(usual, 'delivered')
    const sweep = new RetentionSweep(store, limits)
    const round = async () => {
      for (let steps = 0; await sweep.step(); steps++) assert.ok(steps < 100, 'a round has an end')
      return (await store.loadSummaries([ended, dead, waiting, others])).map(({ key }) => key).sort((a, b) => a - b)
    }
    assert.deepEqual(await round(), [dead, waiting, others], 'a dead letter of less than two hours keeps its message')
    await world.harness.sql(`update dead set died_at = died_at - ${3 * hour}`)
    assert.deepEqual(await round(), [waiting, others])
    await store.updateApplication(brief.key, { settings: { retentionSeconds: null, deadRetentionSeconds: null } })
    assert.deepEqual((await store.listRetentions(-1, 10)).apps, [])
  })
}

describe('sqlite', () => specification(openSqliteHarness))
describe('postgres', () => specification(openPostgresHarness))
