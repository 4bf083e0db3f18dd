import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { eventually } from './eventually.ts'
import { openPlace, type Place, postgresPlace } from './place.ts'
import { apiKey, Program } from './program.ts'
import { Receiver } from './receiver.ts'
import { type Server, startHere } from './server-here.ts'

const minute = 60_000
const schedules = 5
/** Ticks that each schedule has missed: enough that a leader is in the middle of them when it is killed. */
const missed = 40

async function ask<T>(server: Server, method: string, path: string, body?: unknown): Promise<T> {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
  const init = body === undefined ? { method, headers } : { method, headers, body: JSON.stringify(body) }
  const response = await fetch(`${server.api}${path}`, init)
  const text = await response.text()
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
  return JSON.parse(text) as T
}

async function leaderOf(server: Server): Promise<{ pid: number; epoch: number } | undefined> {
  type Answer = { leader: { description: string; epoch: number } | null }
  const { leader } = await ask<Answer>(server, 'GET', '/leader')
  const pid = Number(/pid (\d+)/.exec(leader?.description ?? '')?.[1])
  return leader === null ? undefined : { pid, epoch: leader.epoch }
}

/** An application whose schedules have all missed many ticks, paused until they are let go. */
async function prepare(t: TestContext, server: Program, place: Place): Promise<Receiver> {
  const receiver = await Receiver.listen(t)
  await ask(server, 'POST', '/app', { name: 'acme', uid: 'acme' })
  await ask(server, 'POST', '/app/acme/endpoint', { url: `${receiver.url}/hook` })
  for (let i = 0; i < schedules; i++) {
    const timing = { cron: '* * * * *', missed: 'all', missedLimit: 100, paused: true }
    await ask(server, 'POST', '/app/acme/schedule', { ...timing, uid: `s${i}`, eventType: 'tick', payload: { i } })
  }
  const back = `reached_at / ${minute} * ${minute} - ${missed * minute}`
  const paused = place.dialect === 'sqlite' ? '0' : 'false'
  await place.query(
    `update schedule set reached_at = ${back}, next_at = ${back} + ${minute}, due_at = 0, paused = ${paused} returning key`,
  )
  return receiver
}

const selectTicks = "select event_id from message where event_type = 'tick'"

async function tickCount(place: Place): Promise<number> {
  return (await place.query(selectTicks)).length
}

/** Every tick since the beginning has one message, and each of those reached the receiver. */
async function assertEachOnce(place: Place, receiver: Receiver): Promise<void> {
  const messages = await place.query("select id, event_id from message where event_type = 'tick'")
  const bySchedule = Map.groupBy(messages, ({ event_id: name }) => String(name).split('-')[0])
  assert.equal(bySchedule.size, schedules)
  const rows = await place.query('select id, reached_at from schedule')
  for (const { id, reached_at: reachedAt } of rows) {
    const ticks = (bySchedule.get(String(id)) ?? []).map(({ event_id: name }) => instantOf(String(name))).sort()
    assert.equal(new Set(ticks).size, ticks.length, 'a tick was published twice')
    const first = ticks[0] as number
    assert.equal(ticks.at(-1), Number(reachedAt))
    assert.equal(ticks.length, (Number(reachedAt) - first) / minute + 1, 'a tick was lost')
    assert.ok(ticks.length >= missed)
  }
  const ids = new Set(messages.map(({ id }) => String(id)))
  await eventually('every message was delivered', () => {
    const came = new Set(receiver.arrivals.map(({ headers }) => headers['webhook-id']))
    return [...ids].every((id) => came.has(id))
  })
}

function instantOf(name: string): number {
  const [, y, mo, d, h, mi, s] = /-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(name) ?? assert.fail(name)
  return Date.parse(`${y}-${mo}-${d}T${h}:${mi}:${s}Z`)
}

test('postgres: when the leading process is killed another leads on; no tick is lost or doubled', async (t) => {
  const place = await postgresPlace()
  const first = await Program.start(t, 'worker', place.store)
  await eventually('the first leads', async () => (await place.query('select epoch from leader')).length > 0)
  const server = await Program.start(t, 'serve', place.store)
  const fleet = [first, server, await Program.start(t, 'worker', place.store)]
  const receiver = await prepare(t, server, place)
  for (let deaths = 0; deaths < 2; deaths++) {
    const { pid, epoch } = await eventually('somebody leads, and has run something', async () => {
      const leader = await leaderOf(server)
      return leader && (await tickCount(place)) > 0 ? leader : undefined
    })
    const leader = fleet.find((program) => program.pid === pid) ?? assert.fail(`nobody has the pid ${pid}`)
    // The server is still to be asked, so it only stands still until its lease has run out.
    if (leader === server) leader.pause()
    else await leader.kill()
    await eventually('another leads', async () => {
      const [row] = await place.query('select epoch from leader')
      return Number(row?.epoch) > epoch
    })
    if (leader === server) leader.resume()
    else if (deaths === 0) fleet.push(await Program.start(t, 'worker', place.store))
  }
  await eventually('all is made up for', async () => {
    const rows = await place.query('select min(due_at) as due from schedule')
    return Number(rows[0]?.due) > Date.now()
  })
  await assertEachOnce(place, receiver)
})

test('sqlite: the owner of the file leads; killed and started again it continues where it was', async (t) => {
  const place = await openPlace(t, 'sqlite')
  const killed = await Program.start(t, 'serve', place.store)
  const receiver = await prepare(t, killed, place)
  await eventually('some ticks were run', async () => (await tickCount(place)) >= 20)
  await killed.kill()
  const server = await startHere(t, 'serve', place.store)
  await eventually('all is made up for', async () => {
    const rows = await place.query('select min(due_at) as due from schedule')
    return Number(rows[0]?.due) > Date.now()
  })
  await assertEachOnce(place, receiver)
  assert.ok((await leaderOf(server))?.epoch)
})
