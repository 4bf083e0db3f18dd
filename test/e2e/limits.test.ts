import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { Ledger } from './ledger.ts'
import { mostOpen, worstExcess } from './oracles.ts'
import { owners, pendingCount, postgresPlace } from './place.ts'
import { Program } from './program.ts'
import { type Arrival, Receiver } from './receiver.ts'

const limit = { rate: 40, burst: 10 }
/** A bucket that takes longer to fill than a lease to lapse: the next owner cannot take it for full. */
const slowLimit = { rate: 5, burst: 20 }
const concurrency = 3
const retryAfterSeconds = 4

test('rate, concurrency and Retry-After hold at the receiver while workers die', async (t) => {
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t, { timed: true })
  const ledger = new Ledger()
  const server = await Program.start(t, 'serve', place.store)
  const fleet = [server, await Program.start(t, 'worker', place.store)]
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  for (const app of ['paced', 'saving', 'capped', 'held', 'free']) await client.createApplication(app)
  for (const [app, { rate: throttleRate, burst }] of [['paced', limit] as const, ['saving', slowLimit] as const]) {
    await ledger.subscribe(client, receiver, app, `/${app}`, { throttleRate, burst, concurrency: 50 })
  }
  await ledger.subscribe(client, receiver, 'capped', '/capped', { concurrency })
  const retry = { waits: { kind: 'list', ms: [100, 100, 100] }, jitter: 'none' }
  await ledger.subscribe(client, receiver, 'held', '/held', { concurrency: 1, retry })
  await ledger.subscribe(client, receiver, 'free', '/free')

  receiver.behave('/capped', () => new Promise((resolve) => setTimeout(resolve, 30, { status: 200 })))
  let refused: Arrival | undefined
  receiver.behave('/held', (arrival) => {
    if (refused !== undefined || receiver.at('/held').length < 5) return { status: 200 }
    refused = arrival
    return { status: 429, headers: { 'retry-after': String(retryAfterSeconds) } }
  })
  // A lane that has sent everything has no owner: the answers behind the first ones wait until its owner is dead.
  const victims = [
    { path: '/paced', first: 25, killed: Promise.withResolvers<void>() },
    { path: '/saving', first: 28, killed: Promise.withResolvers<void>() },
  ]
  for (const { path, first, killed } of victims) {
    receiver.behave(path, async () => {
      if (receiver.at(path).length >= first) await killed.promise
      return { status: 200 }
    })
  }
  const counts = { paced: 110, saving: 45, capped: 200, held: 20, free: 50 }
  await Promise.all(Object.entries(counts).map(([app, count]) => ledger.publishAll(client, app, count)))

  // Nothing needs the API any more, so the owner of the lane may die, the server included.
  await eventually('the hold is recorded', async () => {
    const [row] = await place.query('select count(*) as holds from lane where hold_until > 0')
    return Number(row?.holds) === 1
  })
  for (const { path, first, killed } of victims) {
    await receiver.until(`${first} requests came to ${path}`, () => receiver.at(path).length >= first)
    const victim = await eventually(`somebody owns the lane of ${path}`, async () => {
      const owner = (await owners(place)).find((lane) => lane.path === path)
      return fleet.find(({ pid, isRunning }) => isRunning && pid === owner?.pid)
    })
    await victim.kill()
    killed.resolve()
    fleet.push(await Program.start(t, 'worker', place.store))
  }
  await ledger.allDelivered(receiver)
  await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)

  ledger.audit(receiver)
  assert.equal(worstExcess(receiver.at('/paced'), limit), 0)
  assert.equal(worstExcess(receiver.at('/saving'), slowLimit), 0)
  const open = mostOpen(receiver.at('/capped'))
  assert.ok(open <= concurrency, `${open} were open at once`)
  assert.equal(open, concurrency, 'the cap was reached, so it was tried')
  const silentUntil = (refused?.endedAt as number) + retryAfterSeconds * 1000
  const after = receiver.at('/held').filter(({ at }) => at > (refused?.endedAt as number))
  assert.ok(after.length > 0 && after.every(({ at }) => at >= silentUntil), 'the whole endpoint was left alone')
})
