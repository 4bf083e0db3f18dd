import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { describe, test } from 'node:test'
import type { ApiException } from 'svix'
import { eventually } from '../e2e/eventually.ts'
import { adminKey, openSvixWorld } from './svix-world.ts'

const secret = "It's a Secret to Everybody"

describe("Svix's SDK with sources", () => {
  test('creates, gets, lists, upserts, rotates and deletes them', async (t) => {
    const { svix, store } = await openSvixWorld(t)
    const created = await svix.ingest.source.create({ name: 'Repo', uid: 'repo', type: 'github', config: { secret } })
    assert.match(created.id, /^src_/)
    assert.deepEqual([created.uid, created.type, created.name], ['repo', 'github', 'Repo'])
    assert.match(created.ingestUrl ?? '', /\/in\/in_/)
    for (const ref of ['repo', created.id]) assert.deepEqual(await svix.ingest.source.get(ref), created)
    assert.deepEqual((await svix.ingest.source.list()).data, [created])
    const clerk = await svix.ingest.source.upsert('users', {
      name: 'Users',
      type: 'clerk',
      config: { secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' },
    })
    assert.deepEqual([clerk.uid, clerk.type], ['users', 'clerk'])
    const renamed = await svix.ingest.source.upsert('users', { name: 'All', type: 'generic-webhook', config: {} })
    assert.deepEqual([renamed.id, renamed.name, renamed.type], [clerk.id, 'All', 'generic-webhook'])
    const { ingestUrl } = await svix.ingest.source.rotateToken('repo')
    assert.notEqual(ingestUrl, created.ingestUrl)
    const again = svix.ingest.source.create({ name: 'Repo', uid: 'repo', type: 'github', config: { secret } })
    await assert.rejects(again, (error: ApiException<unknown>) => error.code === 409)
    const cron = { schedule: '* * * * *', payload: '{}' }
    const unknown = svix.ingest.source.create({ name: 'Cron', type: 'cron', config: cron })
    await assert.rejects(unknown, (error: ApiException<unknown>) => error.code === 422)
    await svix.ingest.source.delete('repo')
    await assert.rejects(svix.ingest.source.get('repo'), (error: ApiException<unknown>) => error.code === 404)
    const page = { limit: 10, order: 'ascending', after: null } as const
    const names = (await store.listApplications(page)).items.map(({ name }) => name)
    assert.deepEqual(names, ['Users'], 'the application that was made for the source went with it')
  })

  test('a source of a kind that Svix does not know is listed without a config, which its Rust SDK refuses', async (t) => {
    const { svix, serverUrl } = await openSvixWorld(t)
    const headers = { authorization: `Bearer ${adminKey}`, 'content-type': 'application/json' }
    const { id: app } = await svix.application.create({ name: 'acme' })
    const body = JSON.stringify({ provider: 'twilio', uid: 'calls', secret: 'a secret of twilio' })
    const made = await fetch(`${serverUrl}/api/v1/app/${app}/source`, { method: 'POST', headers, body })
    assert.equal(made.status, 201, await made.text())
    await svix.ingest.source.create({ name: 'Open', uid: 'open', type: 'generic-webhook' })
    await svix.ingest.source.create({ name: 'Repo', uid: 'repo', type: 'github', config: { secret } })
    const list = await fetch(`${serverUrl}/ingest/api/v1/source`, { headers })
    const { data } = (await list.json()) as { data: { type: string; config?: object }[] }
    assert.deepEqual(
      data.map(({ type, config }) => [type, config]),
      [
        ['github', {}],
        ['generic-webhook', undefined],
        ['generic-webhook', undefined],
      ],
    )
  })

  test('manages the endpoints of a source, which get its webhooks byte for byte', async (t) => {
    const { svix, receiverUrl, received } = await openSvixWorld(t)
    const source = await svix.ingest.source.create({ name: 'Repo', uid: 'repo', type: 'github', config: { secret } })
    const made = await svix.ingest.endpoint.create('repo', { url: `${receiverUrl}/ok`, uid: 'e', metadata: { k: 'v' } })
    assert.deepEqual([made.uid, made.url, made.metadata], ['e', `${receiverUrl}/ok`, { k: 'v' }])
    assert.deepEqual(
      (await svix.ingest.endpoint.list('repo')).data.map(({ id }) => id),
      [made.id],
    )
    await svix.ingest.endpoint.setHeaders('repo', 'e', { headers: { 'x-team': 'blue' } })
    assert.deepEqual((await svix.ingest.endpoint.getHeaders('repo', 'e')).headers, { 'x-team': 'blue' })
    const { key } = await svix.ingest.endpoint.getSecret('repo', 'e')
    await svix.ingest.endpoint.rotateSecret('repo', 'e', {})
    assert.notEqual((await svix.ingest.endpoint.getSecret('repo', 'e')).key, key)
    const body = '{ "zen":1.0 }'
    const signature = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
    const headers = { 'x-hub-signature-256': signature, 'x-github-event': 'push', 'content-type': 'application/json' }
    const answer = await fetch(source.ingestUrl ?? '', { method: 'POST', body, headers })
    assert.equal(answer.status, 202)
    await eventually('the webhook is delivered', async () => received.length > 0)
    assert.deepEqual([received[0]?.body, received[0]?.headers['x-team']], [body, 'blue'])
    const replaced = await svix.ingest.endpoint.upsert('repo', 'e', { url: `${receiverUrl}/other`, uid: 'e' })
    assert.deepEqual([replaced.id, replaced.url], [made.id, `${receiverUrl}/other`])
    const { url, token } = await svix.ingest.authentication.consumerPortalAccess('repo', { readOnly: true })
    assert.ok(url.includes(token))
    await svix.ingest.endpoint.delete('repo', 'e')
    assert.deepEqual((await svix.ingest.endpoint.list('repo')).data, [])
  })
})
