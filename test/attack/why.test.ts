import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { dialects, isLong, Target } from './attack.ts'

const endpoints = isLong ? 100_000 : 10_000
const perStatement = 5000
const longest = 777
const queueOfLongest = 20_000
const oldest = endpoints - 1000
const day = 86_400_000

type Row = Record<string, unknown>

/** Copies of a table's row, numbered by `n`; `changed` has an expression for each column that differs. */
function copies(row: Row, table: string, changed: Row, where: string, from: number, count: number): string {
  const columns = Object.keys(row)
  const values = columns.map((column) => changed[column] ?? `${table}.${column}`)
  return `
    insert into ${table} (${columns.join(', ')})
    with recursive series (n) as (select ${from} union all select n + 1 from series where n < ${from + count - 1})
    select ${values.join(', ')} from series join ${table} on ${where}`
}

/** An application with very many paused endpoints, a delivery waiting at each, and a few that are worse off. */
async function manyWaiting(target: Target): Promise<void> {
  const { client, place } = target
  await client.createApplication('a')
  const made = await target.call('POST', '/app/a/endpoint', { body: { uid: 'first', url: 'http://127.0.0.1:9/' } })
  assert.equal(made.status, 201, made.text)
  await target.call('POST', '/app/a/endpoint/first/pause')
  await client.publish('a', 'x', Buffer.from('{}'))
  const [endpoint = {}] = await place.query('select * from endpoint')
  const [lane = {}] = await place.query('select * from lane')
  const [pending = {}] = await place.query('select * from pending')
  const key = Number(endpoint.key)
  for (let from = 1; from <= endpoints; from += perStatement) {
    const copy = (row: Row, table: string, changed: Row, column: string) =>
      place.query(copies(row, table, changed, `${table}.${column} = ${key}`, from, perStatement))
    const text = (prefix: string) => `'${prefix}' || cast(n as text)`
    await copy(endpoint, 'endpoint', { key: `${key} + n`, id: text('ep_copy'), uid: text('copy') }, 'key')
    await copy(lane, 'lane', { endpoint: `${key} + n` }, 'endpoint')
    const since = `case when n = ${oldest} then pending.since - ${day} else pending.since end`
    await copy(pending, 'pending', { endpoint: `${key} + n`, since }, 'endpoint')
  }
  const numbered = { message: 'pending.message + n' }
  await place.query(copies(pending, 'pending', numbered, `endpoint = ${key + longest}`, 1, queueOfLongest - 1))
  if (place.dialect === 'postgres') await place.query('analyze')
}

for (const dialect of dialects) {
  test(`${dialect}: the worst of ${endpoints} endpoints are found, and no other client waits for it`, async (t) => {
    const target = await Target.start(t, dialect)
    await manyWaiting(target)
    const total = 1 + endpoints - 1 + queueOfLongest
    const ask = async (path: string) => {
      const { status, text } = await target.call('GET', path)
      assert.equal(status, 200, text)
      return JSON.parse(text)
    }
    const uidsOf = (answer: { data: { uid: string }[] }) => answer.data.map(({ uid }) => uid)
    await eventually('the rows of another program are counted', async () => {
      const { waiting } = await ask('/app/a/why')
      return waiting.total === total && waiting.isExact
    })
    await target.measure('why over many endpoints', async () => {
      const began = performance.now()
      const byWaiting = await ask('/app/a/why')
      t.diagnostic(`one survey: ${Math.round(performance.now() - began)} ms`)
      assert.partialDeepStrictEqual(byWaiting.waiting, { total, endpoints: endpoints + 1, isExact: true })
      const counted = (n: number) => n.toLocaleString('en-US')
      assert.equal(
        byWaiting.detail,
        `${counted(total)} deliveries wait for ${counted(endpoints + 1)} endpoints. The worst 25: 25 paused.`,
      )
      assert.equal(uidsOf(byWaiting)[0], `copy${longest}`)
      const { waiting } = byWaiting.data[0]
      assert.deepEqual([waiting.total, waiting.isExact], [queueOfLongest, true])
      assert.deepEqual([byWaiting.data.length, byWaiting.done], [25, false])
      assert.equal(uidsOf(await ask('/app/a/why?sort=age&limit=2'))[0], `copy${oldest}`)
      // Callers that ask at the same time share one survey.
      const answers = await Promise.all(Array.from({ length: 20 }, () => ask('/why?limit=1')))
      for (const each of answers) assert.deepEqual([each.data[0].appUid, uidsOf(each)], ['a', [`copy${longest}`]])
    })
    await target.measure('the doctor over many endpoints', async () => {
      const began = performance.now()
      const { findings, more, waiting } = await ask('/doctor')
      t.diagnostic(`one examination: ${Math.round(performance.now() - began)} ms`)
      assert.partialDeepStrictEqual(waiting, { total, endpoints: endpoints + 1, isExact: true })
      // The secret of a copy is sealed for another endpoint. Of 40 long queues and the oldest, five of a kind are named.
      const shut = findings.filter(({ code }: { code: string }) => code === 'encryption_key_missing')
      assert.ok(shut.length === 5 && more >= 30, `${shut.length} and ${more}`)
      assert.equal(shut[0].endpoint, `copy${longest}`)
      for (const each of await Promise.all(Array.from({ length: 20 }, () => ask('/doctor')))) {
        assert.equal(each.status, 'critical')
      }
    })
    const said = target.program.logged.split('\n').filter((line) => line.includes(`ep_copy${longest}:`))
    assert.equal(said.length, 1, 'an endpoint that nothing can be sent to is logged once, not at every look')
  })
}
