import assert from 'node:assert/strict'
import { test } from 'node:test'
import { apiKey } from '../e2e/program.ts'
import { dialects, isLong, Target } from './attack.ts'

/** Pages that are opened at once and never read. */
const readers = isLong ? 1000 : 200
const requests = isLong ? 3000 : 300

for (const dialect of dialects) {
  test(`${dialect}: ${readers} unread live streams cost bounded memory and hold no other client up`, async (t) => {
    const settings = { SLUICE_MAX_LIVE: String(readers), SLUICE_MAX_LIVE_PER_KEY: String(readers) }
    const target = await Target.start(t, dialect, settings)
    const head = `GET /api/v1/live HTTP/1.1\r\nhost: sluice\r\nauthorization: Bearer ${apiKey}\r\n\r\n`
    await target.measure(
      'live streams, unread',
      async () => {
        for (let i = 0; i < readers; i++) {
          const socket = await target.connect()
          socket.pause()
          socket.write(head)
        }
        // Work goes on meanwhile, which every stream would show.
        for (let i = 0; i < requests; i++) {
          const { status } = await target.call('POST', '/app', { body: { name: `a${i}` } })
          assert.equal(status, 201)
        }
        const one = await target.call('GET', '/live')
        assert.equal(one.status, 429)
      },
      { grownMbAtMost: 96 },
    )
  })
}

test('a stranger that guesses sessions and sign-in links gets 429, and others none', async (t) => {
  const target = await Target.share(t, 'sqlite')
  await target.measure('guesses', async () => {
    const statuses = new Map<number, number>()
    for (let i = 0; i < requests; i++) {
      const headers = { authorization: `Bearer signin_${String(i).padStart(36, '0')}` }
      const { status } = await target.call('POST', '/session', { headers })
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
    assert.ok((statuses.get(429) ?? 0) > requests / 2, JSON.stringify([...statuses]))
    assert.equal(statuses.get(201), undefined)
    assert.equal((await target.call('POST', '/session')).status, 201)
  })
})
