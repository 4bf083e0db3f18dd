import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { dialects, isLong, Target } from './attack.ts'

const endpoints = isLong ? 50 : 20
const megabyte = 900_000
/** A batch whose filters take far more work than one request may cause: 25,000 deliveries. */
const batchEndpoints = 50
const batchMessages = 500

/** All dead letters of an application, by the index alone. */
async function allDead(target: Target, app: string): Promise<number> {
  const { text } = await target.call('GET', `/app/${app}/dead/count`)
  return (JSON.parse(text) as { count: number }).count
}

/** An application whose endpoints have these fields, one each. */
async function prepare(target: Target, fields: readonly Readonly<Record<string, unknown>>[]): Promise<string> {
  const app = await target.newApplication()
  for (const each of fields) {
    await target.client.createEndpoint(app, { url: 'https://example.com/', disabled: true, ...each })
  }
  return app
}

async function publish(target: Target, app: string, payload: unknown): Promise<string> {
  const { status, text } = await target.call('POST', `/app/${app}/msg?with_content=false`, {
    body: { eventType: 'x', payload },
  })
  assert.equal(status, 202, text)
  return (JSON.parse(text) as { id: string }).id
}

const repeated = (text: string, times: number, joint: string) => Array.from({ length: times }, () => text).join(joint)

/** Filters as expensive as 2,000 characters allow, no two alike. */
const filters: Readonly<Record<string, (i: number) => string>> = {
  size: (i) => `${repeated('payload.t.size() > 0', 45, ' && ')} && ${i} == ${i}`,
  case: (i) => `${repeated('payload.t.lowerAscii() != "x"', 40, ' && ')} && ${i} == ${i}`,
  compare: (i) => `${repeated('payload.l == payload.m', 40, ' && ')} && ${i} == ${i}`,
  missing: (i) => `!payload.l.exists(x, x.y.z == ${i})`,
  search: (i) => `!${repeated('payload.t.contains("aaaaaaaab")', 40, ' && !')} && ${i} == ${i}`,
  tags: (i) => `!payload.l.exists(x, tags.exists(t, t.lowerAscii() == eventType)) && ${i} == ${i}`,
}

const items = (n: number) => Array.from({ length: n }, () => ({}))
const payloads = {
  text: { t: 'A'.repeat(megabyte), l: [], m: [] },
  wide: { t: 'Σ'.repeat(megabyte / 2), l: [], m: [] },
  list: { t: '', l: items(megabyte / 6), m: items(megabyte / 6) },
}

for (const dialect of dialects) {
  test(`${dialect}: expensive filters on a megabyte never hold the loop, and leave dead letters`, async (t) => {
    const target = await Target.share(t, dialect)
    const app = await prepare(
      target,
      Object.values(filters).flatMap((filter) =>
        Array.from({ length: endpoints / 5 }, (_, i) => ({ filter: filter(i) })),
      ),
    )
    const ids: string[] = []
    await target.measure('filters on a megabyte', async () => {
      for (const payload of Object.values(payloads)) ids.push(await publish(target, app, payload))
      const { status } = await target.call('POST', `/app/${app}/msg/precheck/active`, {
        body: { eventType: 'x', payload: payloads.text },
      })
      assert.equal(status, 200)
    })
    const { text } = await target.call('GET', `/app/${app}/dead?reason=unfiltered&limit=250`)
    const dead = JSON.parse(text) as { data: { msgId: string; reason: string }[] }
    for (const id of ids)
      assert.ok(
        dead.data.some(({ msgId }) => msgId === id),
        `${id} left no dead letter: ${text.slice(0, 300)}`,
      )
  })
}

for (const dialect of dialects) {
  test(`${dialect}: a batch does not multiply what filters may do, and says what it left out`, async (t) => {
    const target = await Target.share(t, dialect)
    const app = await prepare(
      target,
      Array.from({ length: batchEndpoints }, (_, i) => ({ filter: `!payload.l.exists(x, x.y == ${i})` })),
    )
    const payload = { l: items(300) }
    const messages = Array.from({ length: batchMessages }, () => ({ eventType: 'x', payload }))
    await target.measure('a batch of filters', async () => {
      const { status, text } = await target.call('POST', `/app/${app}/msg/batch?with_content=false`, {
        body: { messages },
      })
      assert.equal(status, 202, text.slice(0, 300))
      const { data } = JSON.parse(text) as { data: { unfiltered?: number }[] }
      const left = data.reduce((sum, { unfiltered = 0 }) => sum + unfiltered, 0)
      assert.ok(left > 1000, `${left} of ${batchMessages * batchEndpoints} deliveries were not filtered`)
      await eventually('each of them is a dead letter', async () => {
        const dead = await allDead(target, app)
        assert.ok(dead <= left, `${dead} dead letters, ${left} announced`)
        return dead === left
      })
    })
  })
}

test('shapes of a megabyte never hold the loop', async (t) => {
  const target = await Target.share(t, 'sqlite')
  const app = await prepare(
    target,
    Array.from({ length: 50 }, (_, i) => ({ shape: { drop: [`/l/*/a${i}`, '/t'] } })),
  )
  await target.measure('shapes', async () => {
    await publish(target, app, payloads.list)
    await publish(target, app, payloads.text)
  })
})

for (const dialect of dialects) {
  test(`${dialect}: replay-missing asks a filter about many megabytes without holding the loop`, async (t) => {
    const target = await Target.share(t, dialect)
    const app = await prepare(target, [{}])
    const count = isLong ? 48 : 8
    const payload = { l: items(12_000), m: items(250_000) }
    for (let i = 0; i < count; i++) await publish(target, app, i === 0 ? { l: items(100_000), m: [] } : payload)
    const filter = 'payload.l.exists(x, x.y == 1) || size(payload.l) > 11'
    const late = { url: 'https://example.com/', disabled: true, filter }
    const { id } = await target.client.createEndpoint(app, late)
    const replaying = async () => {
      const since = new Date(Date.now() - 3_600_000).toISOString()
      const path = `/app/${app}/endpoint/${id}/replay-missing`
      const { status, text } = await target.call('POST', path, { body: { since } })
      assert.equal(status, 202, text)
      const { id: task } = JSON.parse(text) as { id: string }
      const data = await eventually('the task to finish', async () => {
        const { text: shown } = await target.call('GET', `/background-task/${task}`)
        const { status, data } = JSON.parse(shown) as { status: string; data: Record<string, number> }
        assert.ok(status === 'running' || status === 'finished', shown)
        return status === 'finished' && data
      })
      assert.deepEqual([data.scanned, data.replayed, data.unfiltered], [count, count - 1, 1])
    }
    // The values that were parsed, 20 MB of each message, are garbage that Node collects when it likes.
    await target.measure('replay-missing', replaying, { grownMbAtMost: 512 })
  })
}
