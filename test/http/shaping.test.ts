import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { describe, test } from 'node:test'
import { type Answer, openApi } from './api.ts'

const url = 'https://example.com/hook'
const shape = {
  keep: null,
  drop: ['/user/email'],
  rename: { '/user/id': 'who' },
  pseudonymize: ['/user/id'],
  pseudonymForm: 'endpoint',
}
const payload = '{ "user": {"id":"u-1","email":"a@b.c"}, "views": 1.0, "n": 9007199254740993 }'

async function withApplication() {
  const api = await openApi()
  await api.ask('POST', '/app', { name: 'A', uid: 'a' })
  const region = await api.ask('POST', '/app/a/region', { name: 'eu', secret: 'the-secret-of-this-region' })
  assert.equal(region.status, 201, region.text)
  const make = async (fields: object) => {
    const made = await api.ask('POST', '/app/a/endpoint', { url, ...fields })
    assert.equal(made.status, 201, made.text)
    return made.json
  }
  const { key: app } = (await api.store.findApplication('a')) as { key: number }
  /** The bodies that are stored for an endpoint, oldest first. */
  const waiting = async (id: string) => {
    const endpoint = await api.store.findEndpoint(app, id)
    const read = { endpoint: endpoint?.key ?? 0, class: 0, after: null, limit: 10 } as const
    const rows = (await api.store.readDue([read]))[0]?.rows ?? []
    return Promise.all(
      rows.map(async ({ message, variant }) => {
        const [found] =
          variant === null
            ? await api.store.loadMessages([message])
            : await api.store.loadVariants([{ message, variant }])
        return { variant, body: Buffer.from(found?.body ?? []).toString(), signature: found?.signature }
      }),
    )
  }
  const send = async (text = payload) => {
    const body = `{"eventType":"x","payload":${text}}`
    const sent = await api.ask('POST', '/app/a/msg', body)
    assert.equal(sent.status, 202, sent.text)
    return sent.json.id as string
  }
  return { ...api, make, waiting, send }
}

function problems({ status, json }: Answer): string[] {
  assert.equal(status, 422, JSON.stringify(json))
  return json.detail.map(({ loc, type }: { loc: string[]; type: string }) => `${loc.join('.')} ${type}`)
}

describe('an endpoint with a filter', () => {
  test('gets only what it is true of', async () => {
    const { make, waiting, send } = await withApplication()
    const { id } = await make({ filter: 'payload.views > 10 && eventType == "x"' })
    const all = await make({})
    await send()
    await send('{"views":11}')
    await send('{}')
    assert.deepEqual(
      (await waiting(id)).map(({ body }) => body),
      ['{"views":11}'],
    )
    assert.equal((await waiting(all.id)).length, 3)
  })

  test('is asked beforehand whether it wants a payload', async () => {
    const { ask, make } = await withApplication()
    await make({ filter: 'payload.views > 10', eventTypes: ['x'] })
    const active = async (body: object) => (await ask('POST', '/app/a/msg/precheck/active', body)).json.active
    assert.equal(await active({ eventType: 'x', payload: { views: 11 } }), true)
    assert.equal(await active({ eventType: 'x', payload: { views: 1 } }), false)
    assert.equal(await active({ eventType: 'x' }), true, 'it may want it')
    assert.equal(await active({ eventType: 'y', payload: { views: 11 } }), false)
  })

  test('that is none is refused, with where it goes wrong', async () => {
    const { ask, make } = await withApplication()
    const { id, filter } = await make({ filter: 'true' })
    assert.equal(filter, 'true')
    const wrong = await ask('PATCH', `/app/a/endpoint/${id}`, { filter: 'payload.views >' })
    assert.deepEqual(problems(wrong), ['body.filter filter'])
    assert.match(wrong.json.detail[0].msg, /line 1, column 16/)
    assert.deepEqual(problems(await ask('PUT', `/app/a/endpoint/${id}`, { url, filter: 'views' })), [
      'body.filter filter',
    ])
    assert.deepEqual(problems(await ask('PATCH', `/app/a/endpoint/${id}`, { filter: '' })), ['body.filter minLength'])
    assert.equal((await ask('PATCH', `/app/a/endpoint/${id}`, { filter: null })).json.filter, null)
  })
})

describe('an endpoint with a shape', () => {
  test('gets its own form of each payload, fixed when the message is accepted, and no other endpoint gets it', async () => {
    const { ask, make, waiting, send } = await withApplication()
    const plain = await make({})
    const [first, second] = [await make({ shape, region: 'eu' }), await make({ shape, region: 'eu' })]
    assert.deepEqual([first.shape, first.region], [shape, 'eu'])
    await send()
    await ask('PATCH', `/app/a/endpoint/${first.id}`, { shape: { keep: ['/n'] } })
    const [[one], [two], [whole]] = [await waiting(first.id), await waiting(second.id), await waiting(plain.id)]
    assert.equal(whole?.body, payload)
    const form = /^\{ "user": \{"who":"(psn_[A-Za-z0-9_-]{43})"\}, "views": 1\.0, "n": 9007199254740993 \}$/
    const [who, other] = [one?.body.match(form)?.[1], two?.body.match(form)?.[1]]
    assert.ok(who && other && who !== other, `${one?.body} ${two?.body}`)
    await send()
    assert.equal((await waiting(first.id))[1]?.body, '{ "n": 9007199254740993 }')
    assert.equal((await waiting(second.id))[1]?.body, two?.body, 'the same again')
  })

  test('that is equal and without pseudonyms shares its form', async () => {
    const { make, waiting, send } = await withApplication()
    const drop = { drop: ['/user'] }
    const [first, second] = [await make({ shape: drop }), await make({ shape: { ...drop, keep: null } })]
    const third = await make({ shape: { keep: ['/views'] } })
    await send()
    const variants = await Promise.all([first, second, third].map(async ({ id }) => (await waiting(id))[0]?.variant))
    assert.deepEqual(variants, [0, 0, 1])
  })

  test('gets nothing of a body that has no fields: a dead letter says so', async () => {
    const { ask, make, waiting } = await withApplication()
    const { id } = await make({ shape: { drop: ['/user'] } })
    const plain = await make({})
    const sent = await ask('POST', '/app/a/msg/raw?event_type=x', Buffer.from('user=u-1'), {
      'content-type': 'text/plain',
    })
    assert.equal(sent.status, 202, sent.text)
    assert.deepEqual(await waiting(id), [])
    assert.equal((await waiting(plain.id))[0]?.body, 'user=u-1')
    const { json } = await ask('GET', '/app/a/dead')
    assert.deepEqual(
      json.data.map((letter: { endpointId: string; reason: string }) => [letter.endpointId, letter.reason]),
      [[id, 'unshapable']],
    )
  })

  test('keeps it when it is replaced without one, and loses it only when that is said', async () => {
    const { ask, make } = await withApplication()
    const { id } = await make({ shape, region: 'eu' })
    const path = `/app/a/endpoint/${id}`
    const replaced = await ask('PUT', path, { url })
    assert.deepEqual([replaced.json.shape, replaced.json.region], [shape, 'eu'])
    assert.deepEqual(problems(await ask('PUT', path, { url, region: null })), ['body.region region'])
    assert.equal((await ask('PATCH', path, { shape: null, region: null })).json.shape, null)
    assert.equal((await ask('PATCH', path, { shape: { drop: [] } })).json.shape, null)
  })

  test('is refused what makes no sense', async () => {
    const { ask } = await withApplication()
    const deep = '/x'.repeat(33)
    const refused: [object, string[]][] = [
      [{ shape: { pseudonymize: ['/a'] } }, ['body.region region']],
      [{ shape: { drop: ['a'] } }, ['body.shape.drop.0 pattern']],
      [{ shape: { drop: [''] } }, ['body.shape.drop.0 pattern']],
      [{ shape: { drop: ['/a~2'] } }, ['body.shape.drop.0 pattern']],
      [{ shape: { drop: [deep] } }, ['body.shape.drop.0 pointer']],
      [{ shape: { keep: [] } }, ['body.shape.keep minItems']],
      [{ shape: { rename: { '/a': 'x', '/b': 'x' } } }, ['body.shape.rename./b rename']],
      [{ region: 'us', shape: { pseudonymize: ['/a'] } }, ['body.region region']],
      [{ signature: 'rot13' }, ['body.signature enum']],
    ]
    for (const [fields, expected] of refused) {
      const answer = await ask('POST', '/app/a/endpoint', { url, ...fields })
      assert.deepEqual(problems(answer), expected, JSON.stringify(fields))
    }
  })

  test('is not for a portal token to change', async () => {
    const { ask, make } = await withApplication()
    const { id } = await make({ shape, region: 'eu' })
    const { json } = await ask('POST', '/api/v1/auth/app-portal-access/a', {
      capabilities: ['ManageEndpoint', 'ViewBase'],
    })
    const asSubscriber = (method: string, body: object) =>
      ask(method, `/app/a/endpoint/${id}`, body, { authorization: `Bearer ${json.token}` })
    for (const fields of [{ shape: null }, { region: null }, { shape: { keep: ['/user'] } }]) {
      assert.equal((await asSubscriber('PATCH', fields)).status, 403)
      assert.equal((await asSubscriber('PUT', { url, ...fields })).status, 403)
    }
    const replaced = await asSubscriber('PUT', { url, filter: 'true' })
    assert.deepEqual([replaced.status, replaced.json.shape, replaced.json.filter], [200, shape, 'true'])
  })
})

describe('an endpoint whose signature is stored', () => {
  test('gets the one made at publish with the secret it had then', async () => {
    const { ask, make, waiting, send } = await withApplication()
    const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`
    const { id, signature } = await make({ signature: 'stored', secret, shape: { drop: ['/user'] } })
    assert.equal(signature, 'stored')
    await send()
    assert.equal((await ask('POST', `/app/a/endpoint/${id}/secret/rotate`, {})).status, 200)
    await send()
    const [before, after] = await waiting(id)
    const expected = createHmac('sha256', secret)
      .update(before?.body ?? '')
      .digest('hex')
    assert.equal(before?.signature, expected)
    assert.equal(after?.body, before?.body)
    assert.notEqual(after?.signature, expected)
  })

  test('keeps the key that a partner already has, as text or hex', async () => {
    const { ask, make, waiting, send } = await withApplication()
    for (const [secret, key, shown] of [
      ['8f3c2a9b1d4e5f60718293a4b5c6d7e8f9012345', '8f3c2a9b1d4e5f60718293a4b5c6d7e8f9012345', undefined],
      ['hex:00ff10', Buffer.from('00ff10', 'hex'), 'hex:00ff10'],
      ['raw:hex:00', 'hex:00', 'raw:hex:00'],
    ] as const) {
      const { id } = await make({ signature: 'stored', secret })
      await send()
      const [row] = await waiting(id)
      assert.equal(
        row?.signature,
        createHmac('sha256', key)
          .update(row?.body ?? '')
          .digest('hex'),
      )
      assert.equal((await ask('GET', `/app/a/endpoint/${id}/secret`)).json.key, shown ?? `raw:${secret}`)
      const rotated = await ask('POST', `/app/a/endpoint/${id}/secret/rotate`, { key: 'another key' })
      assert.deepEqual(rotated.json, { key: 'raw:another key' })
    }
    assert.deepEqual(problems(await ask('POST', '/app/a/endpoint', { url, secret: 'another key' })), [
      'body.secret secret',
    ])
  })

  test('cannot have a key of the asymmetric kind', async () => {
    const { ask, make } = await withApplication()
    const secret = `whsk_${Buffer.alloc(32, 7).toString('base64')}`
    for (const signature of ['stored', 'github', 'stripe', 'timestamped']) {
      const answer = await ask('POST', '/app/a/endpoint', { url, secret, signature })
      assert.deepEqual(problems(answer), ['body.signature signature'])
    }
    const { id } = await make({ secret })
    assert.deepEqual(problems(await ask('PATCH', `/app/a/endpoint/${id}`, { signature: 'github' })), [
      'body.signature signature',
    ])
    const other = await make({ signature: 'github' })
    const rotated = await ask('POST', `/app/a/endpoint/${other.id}/secret/rotate`, { key: secret })
    assert.deepEqual(problems(rotated), ['body.key secret'])
  })
})

describe('regions', () => {
  test('are made with a secret of their own or a given one, listed by name, and deleted when they have no endpoint', async () => {
    const { ask, make } = await withApplication()
    const made = await ask('POST', '/app/a/region', { name: 'us' })
    assert.equal(made.status, 201)
    assert.match(made.json.secret, /^rgn_[A-Za-z0-9_-]{43}$/)
    const list = await ask('GET', '/app/a/region')
    assert.deepEqual(
      list.json.data.map((region: object) => Object.keys(region).sort().join()),
      ['createdAt,name', 'createdAt,name'],
    )
    assert.deepEqual([list.json.data[0].name, list.json.data[1].name, list.json.done], ['eu', 'us', true])
    const next = await ask(
      'GET',
      `/app/a/region?limit=1&iterator=${list.json.data[0].name === 'eu' ? 'region_eu' : ''}`,
    )
    assert.equal(next.json.data[0].name, 'us')
    assert.equal((await ask('POST', '/app/a/region', { name: 'us' })).status, 409)
    assert.deepEqual(problems(await ask('POST', '/app/a/region', { name: 'a b', secret: 'short' })), [
      'body.name pattern',
      'body.secret minLength',
    ])
    const { id } = await make({ region: 'us', shape: { pseudonymize: ['/a'] } })
    assert.equal((await ask('DELETE', '/app/a/region/us')).status, 409)
    assert.equal((await ask('DELETE', `/app/a/endpoint/${id}`)).status, 204)
    assert.equal((await ask('DELETE', '/app/a/region/us')).status, 204)
    assert.equal((await ask('DELETE', '/app/a/region/us')).status, 404)
    assert.equal((await ask('GET', '/app/b/region')).status, 404)
  })
})

describe('an application', () => {
  test('names the headers its endpoints are signed with', async () => {
    const { ask } = await withApplication()
    const signatureHeaders = { timestamp: 'X-VVV-Timestamp', signature: 'X-VVV-Signature' }
    const changed = await ask('PATCH', '/app/a', { signatureHeaders })
    assert.deepEqual(changed.json.signatureHeaders, signatureHeaders)
    assert.deepEqual((await ask('PATCH', '/app/a', { name: 'B' })).json.signatureHeaders, changed.json.signatureHeaders)
    assert.equal((await ask('PUT', '/app/a', { name: 'B' })).json.signatureHeaders, null)
    const made = await ask('POST', '/app', { name: 'C', signatureHeaders: { id: 'svix-id' } })
    assert.deepEqual(made.json.signatureHeaders, { id: 'svix-id' })
    const refused: [object, string[]][] = [
      [{ id: 'Content-Length' }, ['body.signatureHeaders.id header']],
      [{ id: 'host' }, ['body.signatureHeaders.id header']],
      [{ id: 'a b' }, ['body.signatureHeaders.id pattern']],
      [{ id: 'x-a', signature: 'X-A' }, ['body.signatureHeaders.signature header']],
      [{ id: 'X-Amz-Id' }, ['body.signatureHeaders.id header']],
      ['other' as never, ['body.signatureHeaders anyOf']],
    ]
    for (const family of ['svix', 'both', 'webhook']) {
      const named = await ask('PATCH', '/app/a', { signatureHeaders: family })
      assert.deepEqual([named.status, named.json.signatureHeaders], [200, family])
    }
    for (const [names, expected] of refused) {
      assert.deepEqual(problems(await ask('PATCH', '/app/a', { signatureHeaders: names })), expected)
    }
  })
})
