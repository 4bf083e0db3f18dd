import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { describe, test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { openPlace } from '../e2e/place.ts'
import { Receiver } from '../e2e/receiver.ts'
import { embed } from './embedded.ts'

const secret = "It's a Secret to Everybody"
const body = '{ "ref":"refs/heads/main", "size": 1.0 }'

/** The headers of an event of GitHub. */
function signed(key: string): Record<string, string> {
  const signature = `sha256=${createHmac('sha256', key).update(body).digest('hex')}`
  return { 'content-type': 'application/json', 'x-github-event': 'push', 'x-hub-signature-256': signature }
}

function push(url: string | null, key: string): Promise<Response> {
  return fetch(url ?? '', { method: 'POST', headers: signed(key), body })
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  describe(`sources of the library on ${dialect}`, () => {
    test('a source of a program that listens takes a signed webhook in and delivers its bytes', async (t) => {
      const receiver = await Receiver.listen(t)
      const sluice = await embed(t, await openPlace(t, dialect), { listen: '127.0.0.1:0' })
      await sluice.applications.create({ name: 'Shop', uid: 'shop' })
      await sluice.endpoints.create('shop', { url: `${receiver.url}/hook` })
      const source = await sluice.sources.create('shop', { provider: 'github', uid: 'repo', secret })
      assert.ok(source.url?.startsWith(`${sluice.url}/in/in_`), String(source.url))
      assert.equal((await push(source.url, 'another secret')).status, 401)
      const answer = await push(source.url, secret)
      assert.equal(answer.status, 202)
      await receiver.until('it came', () => receiver.arrivals.length === 1)
      const [arrival] = receiver.arrivals
      assert.equal(arrival?.headers['webhook-id'], answer.headers.get('sluice-message-id'))
      assert.equal(arrival?.body.toString(), body)
      const { accepted, refused } = await eventually('both count', async () => {
        const { arrivals } = await sluice.sources.get('shop', 'repo')
        return arrivals.accepted === 1 && arrivals.refused === 1 && arrivals
      })
      assert.deepEqual([accepted, refused], [1, 1])
      const [sample, ...others] = await sluice.sources.samples('shop', 'repo')
      assert.deepEqual([sample?.code, sample?.bytes, others], ['wrong_signature', body.length, []])
      assert.equal(Buffer.from(sample?.body ?? '', 'base64').toString(), body)
      const headers = { ...signed(secret), 'x-github-delivery': 'd1' }
      assert.deepEqual(await sluice.sources.test('shop', 'repo', { headers, body }), {
        ...{ result: 'event', eventType: 'push', eventId: 'd1', code: null, reason: null },
      })
      const { result, code } = await sluice.sources.test('shop', 'repo', { headers, body: `${body} ` })
      assert.deepEqual([result, code], ['refused', 'wrong_signature'])
    })

    test('sources are created, listed, changed, rotated and deleted', async (t) => {
      const sluice = await embed(t, await openPlace(t, dialect), {
        deliver: false,
        publicUrl: 'https://hooks.example.com/',
      })
      const { sources } = sluice
      await sluice.applications.create({ name: 'Shop', uid: 'shop' })
      const made = await sources.create('shop', { provider: 'github', uid: 'repo' })
      assert.match(made.secret ?? '', /^[0-9a-f]{64}$/)
      assert.match(made.url ?? '', /^https:\/\/hooks\.example\.com\/in\/in_\w+$/)
      const other = await sources.create('shop', { provider: 'twilio', secret: 'token' })
      assert.deepEqual([other.secret, other.name], [null, 'Twilio'])
      const listed = (await sources.list('shop')).data
      assert.deepEqual(
        listed.map(({ id }) => id),
        [other.id, made.id],
      )
      assert.equal((await sources.list('shop', { limit: 1 })).done, false)
      const everywhere = (await sources.listAll({ order: 'ascending' })).data
      assert.deepEqual(
        everywhere.map(({ id, appUid }) => [id, appUid]),
        [
          [made.id, 'shop'],
          [other.id, 'shop'],
        ],
      )
      const [first] = await sources.providers()
      assert.deepEqual([first?.name, first?.secret?.origin], ['github', 'chosen'])
      const changed = await sources.update('shop', 'repo', { name: 'Hub', settings: { replayWindowSeconds: 60 } })
      assert.deepEqual([changed.name, changed.settings.replayWindowSeconds, changed.url], ['Hub', 60, made.url])
      const moved = await sources.rotateToken('shop', 'repo')
      assert.notEqual(moved.url, made.url)
      assert.equal(moved.tokens.length, 2)
      assert.equal((await sources.rotateToken('shop', 'repo', 0)).tokens.length, 1)
      const next = await sources.rotateSecret('shop', 'repo')
      assert.ok(next !== null && next !== made.secret)
      assert.equal(await sources.rotateSecret('shop', 'repo', { secret, gracePeriodSeconds: 0 }), null)
      assert.deepEqual((await sources.get('shop', made.id)).secrets, [{ expiresAt: null }])
      await assert.rejects(sources.create('shop', { provider: 'stripe', secret: '' }), { code: 'validation' })
      await assert.rejects(sources.rotateSecret('shop', other.id), { code: 'validation' })
      await sources.delete('shop', 'repo')
      await assert.rejects(sources.get('shop', 'repo'), { code: 'not_found' })
      assert.equal((await sources.list('shop')).data.length, 1)
    })
  })
}
