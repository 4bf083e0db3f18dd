import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { ApiException } from 'svix'
import { collect, openSvixWorld } from './svix-world.ts'

const schema = { '1': { type: 'object', properties: { id: { type: 'string' } } } }

describe("Svix's SDK with event types", () => {
  test('creates, gets, lists, patches, upserts, archives and expunges them', async (t) => {
    const { svix } = await openSvixWorld(t)
    const created = await svix.eventType.create({
      name: 'user.signup',
      description: 'Somebody joined',
      schemas: schema,
    })
    assert.deepEqual(
      [created.name, created.description, created.archived, created.deprecated, created.schemas],
      ['user.signup', 'Somebody joined', false, false, schema],
    )
    assert.deepEqual(await svix.eventType.get('user.signup'), created)
    const patched = await svix.eventType.patch('user.signup', { description: 'Joined', schemas: null })
    assert.deepEqual([patched.description, patched.schemas], ['Joined', null])
    const replaced = await svix.eventType.upsert('user.signup', { description: 'Again', deprecated: true })
    assert.deepEqual([replaced.description, replaced.deprecated], ['Again', true])
    await svix.eventType.upsert('user.left', { description: 'Left' })

    const names = async (includeArchived: boolean) =>
      (await collect((iterator) => svix.eventType.list({ limit: 1, iterator, includeArchived }))).map(
        ({ name }) => name,
      )
    assert.deepEqual(await names(false), ['user.left', 'user.signup'])
    await svix.eventType.delete('user.signup')
    assert.deepEqual(await names(false), ['user.left'])
    assert.deepEqual(await names(true), ['user.left', 'user.signup'])
    await svix.eventType.create({ name: 'user.signup', description: 'Back' })
    assert.deepEqual(await names(false), ['user.left', 'user.signup'])
    await svix.eventType.delete('user.signup', { expunge: true })
    await assert.rejects(svix.eventType.get('user.signup'), (error: ApiException<unknown>) => error.code === 404)
  })

  test('refuses a name twice', async (t) => {
    const { svix } = await openSvixWorld(t)
    await svix.eventType.create({ name: 'x', description: 'x' })
    await assert.rejects(
      svix.eventType.create({ name: 'x', description: 'x' }),
      (error: ApiException<{ code: string }>) => error.code === 409,
    )
  })

  test('imports them from an OpenAPI document', async (t) => {
    const { svix } = await openSvixWorld(t)
    const spec = {
      openapi: '3.1.0',
      info: { title: 'Hooks', version: '1' },
      webhooks: {
        'pet.new': {
          post: {
            description: 'A new pet',
            requestBody: { content: { 'application/json': { schema: { type: 'object' } } } },
            responses: { '200': { description: 'ok' } },
          },
        },
      },
    }
    const tried = await svix.eventType.importOpenapi({ spec, dryRun: true })
    assert.deepEqual(
      tried.data.toModify?.map(({ name }) => name),
      ['pet.new'],
    )
    await assert.rejects(svix.eventType.get('pet.new'), (error: ApiException<unknown>) => error.code === 404)
    const { data } = await svix.eventType.importOpenapi({ spec })
    assert.deepEqual(data.modified, ['pet.new'])
    assert.equal((await svix.eventType.get('pet.new')).description, 'A new pet')
    const again = await svix.eventType.importOpenapi({ specRaw: JSON.stringify(spec) })
    assert.deepEqual(again.data.modified, ['pet.new'])
  })
})
