import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Application } from '../../../src/domain/endpoint.ts'
import { begin, type Open, type World } from './harness.ts'

const secret = 'a secret that only we know'
const shape = { keep: null, drop: [], rename: {}, pseudonymize: ['/id'] }
const page = { limit: 10, order: 'ascending', after: null } as const

async function treatmentsOf(world: World, app: Application) {
  const list = (await world.store.subscriptions(app.key))?.list ?? []
  return list.toSorted((a, b) => a.endpoint - b.endpoint).map(({ treatment }) => treatment)
}

export function regions(open: Open): void {
  test('a region has a name within its application, and its secret does not come back with it', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const other = await world.application()
    const made = await world.store.createRegion(app.key, 'eu', secret)
    assert.deepEqual([made.name, Object.keys(made).sort()], ['eu', ['createdAt', 'name']])
    await world.store.createRegion(other.key, 'eu', secret)
    await world.store.createRegion(app.key, 'Us', secret)
    await world.store.createRegion(app.key, 'asia', secret)
    const names = async (request: Parameters<typeof world.store.listRegions>[1]) =>
      (await world.store.listRegions(app.key, request)).items.map((region) => region.name)
    assert.deepEqual(await names(page), ['Us', 'asia', 'eu'])
    assert.deepEqual(await names({ ...page, order: 'descending', after: 'eu' }), ['asia', 'Us'])
    assert.deepEqual(await names({ ...page, limit: 1, after: 'asia' }), ['eu'])
    assert.equal((await world.store.listRegions(app.key, { ...page, limit: 2 })).done, false)
    await assert.rejects(world.store.createRegion(app.key, 'eu', secret), { code: 'conflict' })
    await assert.rejects(world.store.createRegion(4711, 'eu', secret), { code: 'not_found' })
  })

  test('an endpoint is only in a region that its application has, which then stays', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    await world.store.createRegion((await world.application()).key, 'eu', secret)
    await assert.rejects(world.endpoint(app, { flow: { region: 'eu' } }), { code: 'validation' })
    const endpoint = await world.endpoint(app)
    const enter = (region: string | null) => world.store.updateEndpoint(app.key, endpoint.key, { flow: { region } })
    await assert.rejects(enter('eu'), { code: 'validation' })
    await world.store.createRegion(app.key, 'eu', secret)
    assert.equal((await enter('eu'))?.flow.region, 'eu')
    await assert.rejects(world.store.deleteRegion(app.key, 'eu'), { code: 'conflict' })
    await enter(null)
    assert.equal(await world.store.deleteRegion(app.key, 'eu'), true)
    assert.equal(await world.store.deleteRegion(app.key, 'eu'), false)
    assert.equal(await world.store.deleteRegion(4711, 'eu'), false)
    await enter(null)
  })

  test('a publisher learns the treatment of endpoints, where that is not the default', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    await world.store.createRegion(app.key, 'eu', secret)
    await world.endpoint(app, { secrets: [{ secret: 'whsec_AAAA', expiresAt: null }] })
    const shaped = await world.endpoint(app, { flow: { shape, region: 'eu' }, disabled: true })
    const signed = await world.endpoint(app, {
      flow: { signature: 'stored' },
      secrets: [
        { secret: 'whsec_BBBB', expiresAt: null },
        { secret: 'whsec_CCCC', expiresAt: 1 },
      ],
    })
    assert.deepEqual(await treatmentsOf(world, app), [
      undefined,
      { id: shaped.id, flow: shaped.flow, disabled: true, secret: null, regionSecret: secret },
      { id: signed.id, flow: signed.flow, disabled: false, secret: 'whsec_BBBB', regionSecret: null },
    ])
  })

  test('a publisher’s knowledge is outdated when a region is made or deleted', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const version = async () => (await world.store.subscriptions(app.key))?.version ?? 0
    const first = await version()
    await world.store.createRegion(app.key, 'eu', secret)
    const second = await version()
    await world.store.deleteRegion(app.key, 'eu')
    assert.ok(first < second && second < (await version()))
  })

  test('a sender learns the secret of the region and the application’s header names', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    await world.store.createRegion(app.key, 'eu', secret)
    const endpoint = await world.endpoint(app, { flow: { shape, region: 'eu' } })
    const plain = await world.endpoint(app)
    const told: unknown[] = []
    world.store.watch({ rows() {}, lanes() {}, settings: (endpoints) => void told.push(endpoints) })
    await world.store.updateApplication(app.key, { name: 'the same' })
    assert.deepEqual(told, [])
    const settings = { signatureHeaders: { signature: 'x-vvv-signature' } }
    await world.store.updateApplication(app.key, { settings })
    assert.deepEqual(told, [undefined], 'any endpoint may be meant')
    const loaded = await world.store.loadEndpoints([endpoint.key, plain.key])
    assert.deepEqual(
      loaded.map(({ regionSecret, appSettings }) => [regionSecret, appSettings]),
      [
        [secret, settings],
        [null, settings],
      ],
    )
    const worker = await world.join()
    await world.publish([endpoint])
    const [claimed] = await world.claim(worker)
    assert.equal(claimed?.endpoint.regionSecret, secret)
    assert.deepEqual(claimed?.endpoint.appSettings, settings)
    await world.store.updateApplication(app.key, { settings: { signatureHeaders: 'svix' } })
    const [again] = await world.store.loadEndpoints([plain.key])
    assert.equal(again?.appSettings?.signatureHeaders, 'svix')
    assert.equal('regionSecret' in ((await world.store.findEndpoint(app.key, endpoint.id)) ?? {}), false)
  })

  test('the secrets of a deleted application go at once', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    await world.store.createRegion(app.key, 'eu', secret)
    await world.store.deleteApplication(app.key)
    assert.deepEqual((await world.store.listRegions(app.key, page)).items, [])
  })
}
