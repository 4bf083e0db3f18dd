import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeKey } from '../../src/domain/ids.ts'
import { hourMs, minuteMs, serverScope } from '../../src/features/history/rules.ts'
import { dialects, isLong, Target } from './attack.ts'

const endpoints = 100
const rounds = isLong ? 20 : 1
const atOnce = isLong ? 50 : 4
/** Rows of each scope. */
const hours = { endpoint: (isLong ? 7 : 1) * 24, application: 90 * 24, server: (isLong ? 600 : 90) * 24 }
const minutes = isLong ? 25 * 60 : 5 * 60
/** Processes whose rows were not merged yet. */
const writers = isLong ? 4 : 2

/** Sums with a duration in each bucket of both sketches, as receivers that answer at all speeds make them. */
const everyBucket = Array.from({ length: 256 }, (_, bucket) => [Math.min(1, bucket), 12_345]).flat()
const widest = JSON.stringify({ accepted: 7, delivered: 5, failed: 2, wait: everyBucket, latency: everyBucket })

/** Fills the histories of scopes up to now. */
async function fill(target: Target, scopes: readonly number[], span: number, count: number, by = ''): Promise<void> {
  const last = Math.floor(Date.now() / span) * span
  await target.place.query(`
    insert into history (scope, span, at, writer, sums)
    with recursive series (n) as (select 0 union all select n + 1 from series where n < ${count - 1}),
      scopes (scope) as (values ${scopes.map((scope) => `(${scope})`).join(', ')})
    select scope, ${span}, ${last} - n * cast(${span} as bigint), '${by}', '${widest}' from series, scopes`)
}

async function scene(target: Target): Promise<{ readonly ids: string[]; readonly token: string }> {
  const { id } = JSON.parse((await target.call('POST', '/app', { body: { name: 'a', uid: 'a' } })).text)
  const make = async (_: unknown, n: number): Promise<string> => {
    const made = await target.call('POST', '/app/a/endpoint', { body: { uid: `e${n}`, url: 'http://127.0.0.1:9/' } })
    return JSON.parse(made.text).id
  }
  const ids = await Promise.all(Array.from({ length: endpoints }, make))
  const portal = await target.call('POST', `/auth/app-portal-access/${id}`, { body: {} })
  const application = decodeKey('app', id) as number
  const [first = 0, ...others] = ids.map((each) => decodeKey('ep', each) as number)
  await fill(target, [serverScope], hourMs, hours.server)
  await fill(target, [application], hourMs, hours.application)
  await fill(target, [first, ...others], hourMs, hours.endpoint)
  for (let n = 0; n < writers; n++) {
    await fill(target, [serverScope, application, first], minuteMs, minutes, `writer${n}`)
  }
  if (target.place.dialect === 'postgres') await target.place.query('analyze')
  return { ids, token: JSON.parse(portal.text).token }
}

const ranges = (isLong ? ['15m', '1h', '24h', '7d', '90d'] : ['1h', '90d']).map((range) => `range=${range}`)

for (const dialect of dialects) {
  test(`${dialect}: a client that reads long histories in a loop holds no other client up`, async (t) => {
    const target = await Target.start(t, dialect, { SLUICE_API_RATE: '0', SLUICE_PORTAL_RATE: '0' })
    const { ids, token } = await scene(target)
    const sparklines = (isLong ? ['24h', '7d'] : ['24h']).map(
      (range) => `/history/sparkline?app=a&range=${range}&${ids.map((id) => `endpoint=${id}`).join('&')}`,
    )
    const since = new Date(Date.now() - hours.server * hourMs).toISOString()
    const ofTenant = [
      ...ranges.flatMap((range) => [`/history?app=a&${range}`, `/history?app=a&endpoint=e0&${range}`]),
      ...sparklines,
    ]
    const ofAll = [...ranges.map((range) => `/history?${range}`), `/history?since=${since}`]
    const ask = async (path: string, key?: string) => {
      const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
      const { status, text } = await target.call('GET', path, { headers })
      assert.equal(status, 200, `${path}: ${text}`)
      return JSON.parse(text)
    }
    const loop = async (paths: readonly string[], key?: string) => {
      for (let round = 0; round < rounds; round++) {
        for (const path of paths) await Promise.all(Array.from({ length: atOnce }, () => ask(path, key)))
      }
    }
    const { totals } = await ask('/history?app=a&range=7d')
    assert.equal(totals.accepted, 7 * 7 * 24)
    const [first] = (await ask(sparklines[0] as string)).data
    assert.deepEqual(first.delivered, Array(24).fill(5))
    // The rows that are read are garbage at once: the heap grows to its usual size in the first loop, and not in the second.
    const limits = { grownMbAtMost: 400 }
    await target.measure('histories by a key', () => loop(isLong ? [...ofAll, ...ofTenant] : ofAll), limits)
    await target.measure('histories by a portal token', () => loop(ofTenant, token))
  })
}
