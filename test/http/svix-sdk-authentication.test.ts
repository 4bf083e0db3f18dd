import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type ApiException, Svix } from 'svix'
import { openSvixWorld } from './svix-world.ts'

describe("Svix's SDK with portal access", () => {
  test('gets a token that opens one application and no other', async (t) => {
    const { svix, serverUrl } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    await svix.application.create({ name: 'B', uid: 'b' })
    const { token, url } = await svix.authentication.appPortalAccess('a', { featureFlags: [] })
    assert.ok(token.length > 20)
    assert.ok(!new URL(url).search.includes(token), 'a token in a query string ends up in logs')
    const portal = new Svix(token, { serverUrl })
    await portal.endpoint.create('a', { url: 'https://example.com/' })
    assert.equal((await portal.endpoint.list('a')).data.length, 1)
    await assert.rejects(portal.endpoint.list('b'), (error: ApiException<unknown>) => error.code === 404)
    await assert.rejects(portal.application.list(), (error: ApiException<unknown>) => error.code === 403)
  })

  test('creates the application with the access when asked to', async (t) => {
    const { svix } = await openSvixWorld(t)
    await svix.authentication.appPortalAccess('new', { application: { name: 'New', uid: 'new' } })
    assert.equal((await svix.application.get('new')).name, 'New')
  })

  test('logs a token out, and expires all of an application', async (t) => {
    const { svix, serverUrl } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    const open = async () => new Svix((await svix.authentication.appPortalAccess('a', {})).token, { serverUrl })
    const refused = (error: ApiException<unknown>) => error.code === 401
    const [one, two] = [await open(), await open()]
    await one.endpoint.list('a')
    await one.authentication.logout()
    await assert.rejects(one.endpoint.list('a'), refused)
    await two.endpoint.list('a')
    await svix.authentication.expireAll('a', {})
    await assert.rejects(two.endpoint.list('a'), refused)
  })

  test('with a wrong key gets 401', async (t) => {
    const { serverUrl } = await openSvixWorld(t)
    await assert.rejects(
      new Svix('wrong', { serverUrl }).application.list(),
      (error: ApiException<{ code: string }>) => error.code === 401 && error.body.code === 'authentication_failed',
    )
  })
})
