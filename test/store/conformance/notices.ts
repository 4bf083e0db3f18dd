import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../../../src/domain/app-error.ts'
import { managementApplication } from '../../../src/features/endpoints/rules.ts'
import { begin, noEffects, type Open, plainEndpoint } from './harness.ts'

const everything = { actor: null, action: null, app: null, since: null, until: null }
const opened = 'endpoint.circuit.opened'

export function notices(open: Open): void {
  test('a notice is written with what it tells of, names whom it concerns, and stays until it was sent', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application('acme')
    const endpoint = await world.endpoint(app, { uid: 'main' })
    const { worker, row } = await world.owningOne(endpoint)
    const health = [{ endpoint: endpoint.key, health: 'down' }]
    const data = { failures: 3, why: '"quoted" \\ 🎬' }
    await store.createEndpoint(managementApplication, plainEndpoint)
    const told = [
      { type: opened, endpoint: endpoint.key, data },
      { type: 'message.attempt.exhausted', endpoint: endpoint.key, message: row.message, data: {} },
    ] as const
    assert.equal(await store.settle(worker, [], { ...noEffects, health, notices: told }), 'settled')

    const [first, second] = await store.listNotices(10)
    assert(first && second)
    const concerned = { appId: app.id, appUid: 'acme', endpointId: endpoint.id, endpointUid: 'main' }
    const { key, at, ...rest } = first
    assert.deepEqual(rest, {
      type: opened,
      app: app.key,
      endpoint: endpoint.key,
      message: null,
      data: { ...concerned, ...data },
    })
    assert(Math.abs(at - endpoint.createdAt) < 60_000)
    assert.deepEqual([second.type, second.message], ['message.attempt.exhausted', row.message])
    assert.deepEqual(
      (await store.listNotices(1)).map((notice) => notice.key),
      [key],
      'the oldest comes first',
    )

    await store.removeNotices([key])
    await store.removeNotices([])
    assert.deepEqual(
      (await store.listNotices(10)).map((notice) => notice.key),
      [second.key],
    )
  })

  test('changes that Sluice makes by itself are in the audit log, and mere notices are not', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const endpoint = await world.endpoint(app)
    const { worker, row } = await world.owningOne(endpoint)
    await store.settle(worker, [], {
      ...noEffects,
      disable: [{ endpoint: endpoint.key, reason: 'failing', failingMs: 60_000 }],
      notices: [
        { type: 'message.attempt.exhausted', endpoint: endpoint.key, message: row.message, data: {} },
        { type: opened, endpoint: endpoint.key, data: { failures: 3 } },
      ],
    })
    const { items } = await store.listAudit({ limit: 10, order: 'ascending', after: null }, everything)
    const target = `/api/v1/app/${app.id}/endpoint/${endpoint.id}`
    assert.deepEqual(
      items.map((item) => [item.actor, item.action, item.app, item.target]),
      [
        ['sluice', opened, app.id, target],
        ['sluice', 'endpoint.disabled', app.id, target],
      ],
    )
    assert.equal(items[0]?.after, '{"failures":3}')
  })

  test('the notice of a disabled endpoint says since when it failed, and is sent once', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    const disable = [{ endpoint: endpoint.key, reason: 'failing', failingMs: 60_000 }] as const
    for (let i = 0; i < 2; i++) await store.settle(worker, [], { ...noEffects, disable })
    const [notice, ...others] = await store.listNotices(10)
    assert(notice)
    assert.equal(notice.type, 'endpoint.disabled')
    assert.equal(notice.data.reason, 'failing')
    assert(Math.abs(Date.parse(notice.data.failSince as string) - (notice.at - 60_000)) < 1000)
    assert.deepEqual(others, [])
  })

  test('a worker that was declared dead tells nothing', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    await store.leave(worker)
    const told = [{ type: opened, endpoint: endpoint.key, data: {} }] as const
    assert.equal(await store.settle(worker, [], { ...noEffects, notices: told }), 'fenced')
    assert.deepEqual(await store.listNotices(10), [])
    assert.deepEqual((await store.listAudit({ limit: 10, order: 'ascending', after: null }, everything)).items, [])
  })

  test('a notice about a message is written from the moment its subscription is stored, and only while it is', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const endpoint = await world.endpoint(await world.application())
    const { worker, row } = await world.owningOne(endpoint)
    const failing = { type: 'message.attempt.failing', endpoint: endpoint.key, message: row.message, data: {} } as const
    const exhausted = { ...failing, type: 'message.attempt.exhausted' } as const
    const written = async () => {
      assert.equal(await store.settle(worker, [], { ...noEffects, notices: [failing, exhausted] }), 'settled')
      const listed = await store.listNotices(10)
      await store.removeNotices(listed.map(({ key }) => key))
      return listed.map(({ type }) => type)
    }
    const listen = (eventTypes: string[] | null) =>
      store.createEndpoint(managementApplication, { ...plainEndpoint, eventTypes })
    assert.deepEqual(await written(), [])
    const { key } = await listen(['endpoint.*', 'message.attempt.exhausted'])
    assert.deepEqual(await written(), ['message.attempt.exhausted'])
    await store.updateEndpoint(managementApplication, key, { eventTypes: ['message.*'] })
    assert.deepEqual(await written(), ['message.attempt.failing', 'message.attempt.exhausted'])
    await store.deleteEndpoint(managementApplication, key)
    assert.deepEqual(await written(), [])
    await listen(null)
    assert.deepEqual(await written(), ['message.attempt.failing', 'message.attempt.exhausted'])
  })

  test('a settlement whose notices meet a new subscription is recorded once', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const endpoint = await world.endpoint(app)
    const { worker, row } = await world.owningOne(endpoint)
    const verdict = { state: 'dead', reason: 'exhausted' } as const
    const exhausted = {
      type: 'message.attempt.exhausted',
      endpoint: endpoint.key,
      message: row.message,
      data: {},
    } as const
    await store.createEndpoint(managementApplication, plainEndpoint)
    const settlement = { endpoint: endpoint.key, app: app.key, row, attempt: null, verdict }
    assert.equal(await store.settle(worker, [settlement], { ...noEffects, notices: [exhausted] }), 'settled')
    assert.equal((await store.findDead(endpoint.key, row.message))?.reason, 'exhausted')
    assert.deepEqual(
      (await store.listNotices(10)).map(({ type }) => type),
      ['message.attempt.exhausted'],
    )
  })

  test('a change of an endpoint makes a notice while an operational webhook exists, and only then', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application('acme')
    const unheard = await world.endpoint(app)
    await store.updateEndpoint(app.key, unheard.key, { description: 'x' })
    assert.deepEqual(await store.listNotices(10), [])

    await store.createEndpoint(managementApplication, plainEndpoint)
    const endpoint = await world.endpoint(app, { uid: 'main', disabled: true })
    await store.updateEndpoint(app.key, endpoint.key, { disabled: false })
    await store.updateEndpoint(app.key, endpoint.key, { disabled: true })
    await store.deleteEndpoint(app.key, endpoint.key)
    const change = () => {
      throw new AppError('conflict', 'planted')
    }
    await assert.rejects(store.updateEndpoint(app.key, unheard.key, change), /planted/)
    await store.deleteApplication(app.key)
    const told = await store.listNotices(20)
    assert.deepEqual(
      told.map(({ type, endpoint: key }) => [type, key === endpoint.key]),
      [
        ['endpoint.created', true],
        ['endpoint.updated', true],
        ['endpoint.enabled', true],
        ['endpoint.updated', true],
        ['endpoint.deleted', true],
        ['endpoint.deleted', false],
      ],
    )
    const concerned = { appId: app.id, appUid: 'acme', endpointId: endpoint.id, endpointUid: 'main' }
    assert.deepEqual(told[0]?.data, concerned)
    assert.deepEqual([told[4]?.data.endpointId, told[4]?.data.appId], [endpoint.id, app.id])
  })
}
