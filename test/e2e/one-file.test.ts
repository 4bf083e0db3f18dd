import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Child } from '../store/sqlite/child.ts'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { sqlitePlace } from './place.ts'
import { Program } from './program.ts'
import { Receiver } from './receiver.ts'

test('a message that another process publishes into the file of a running server is delivered soon', async (t) => {
  const place = await sqlitePlace(t)
  const receiver = await Receiver.listen(t)
  const server = await Program.start(t, 'serve', place.store)
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  await client.createApplication('acme')
  await client.createEndpoint('acme', { url: `${receiver.url}/guest` })

  const guest = new Child(place.files, 'guest')
  assert.equal(await guest.line(), 'open')
  const waits: number[] = []
  for (let n = 1; n <= 7; n++) {
    guest.tell('publish')
    assert.equal(await guest.line(), 'accepted')
    const acceptedAt = performance.now()
    await receiver.until('it is delivered', () => receiver.arrivals.length >= n)
    waits.push(Math.max(0, (receiver.arrivals[n - 1]?.at as number) - acceptedAt))
  }
  assert.equal(receiver.arrivals.length, 7)
  assert.ok(receiver.arrivals.every(({ body }) => body.equals(Buffer.from([1]))))
  // The server looks at the file every 20 ms and at its lanes every second. Each message is published just after the one
  // before was delivered, so a look at the lanes alone would find each of them only a second later.
  const best = Math.min(...waits.slice(1))
  t.diagnostic(`noticed after ${best.toFixed(1)} ms at best`)
  assert.ok(best < 500, `noticed after ${best} ms`)
})

test('a second server on the same file exits with 3 and names the owner', async (t) => {
  const place = await sqlitePlace(t)
  const receiver = await Receiver.listen(t)
  const owner = await Program.start(t, 'serve', place.store)
  const second = await Program.run(t, 'serve', place.store)
  assert.deepEqual(second.exit, { code: 3, signal: null })
  assert.match(second.logged, new RegExp(`is owned by .*pid ${owner.pid} .*${new URL(owner.api).host}`))
  assert.equal(second.printed, '')

  // The first one was not disturbed.
  const client = new Client(owner.api)
  atEnd(t, () => client.close())
  await client.createApplication('acme')
  await client.createEndpoint('acme', { url: `${receiver.url}/still` })
  assert.equal((await client.publish('acme', 'a.b', Buffer.from('{}'))).state, 'accepted')
  await receiver.until('the owner delivers', () => receiver.arrivals.length === 1)

  // And once it is killed, the file is free at once.
  await owner.kill()
  await Program.start(t, 'serve', place.store)
})

test('a worker on a SQLite file gets an error that the owner of the file alone delivers', async (t) => {
  const place = await sqlitePlace(t)
  const worker = await Program.run(t, 'worker', place.store)
  assert.deepEqual(worker.exit, { code: 2, signal: null })
  assert.match(worker.logged, /Workers need a Postgres store/)
})
