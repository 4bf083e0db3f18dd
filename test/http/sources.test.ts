import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { systemClock } from '../../src/runtime/clock.ts'
import { type Api, openApi } from './api.ts'

/** A push of GitHub, byte for byte: its JSON must not be encoded again. */
const push = Buffer.from('{ "ref":"refs/heads/main",\n "size": 1.0, "id": 12345678901234567890 }')
const secret = "It's a Secret to Everybody"

const sign = (body: Buffer, key = secret) => `sha256=${createHmac('sha256', key).update(body).digest('hex')}`

function github(body = push, change: Record<string, string> = {}): Record<string, string> {
  return {
    authorization: '',
    'content-type': 'application/json',
    'x-github-event': 'push',
    'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
    'x-hub-signature-256': sign(body),
    ...change,
  }
}

describe('sources', () => {
  let api: Api
  let app: string
  before(async () => {
    api = await openApi()
    app = (await api.ask('POST', '/api/v1/app', { name: 'Shop', uid: 'shop' })).json.id
  })
  after(() => api.app.close())

  const create = async (body: object) => {
    const { status, json } = await api.ask('POST', `/app/${app}/source`, body)
    assert.equal(status, 201, JSON.stringify(json))
    return { ...json, path: new URL(json.url).pathname }
  }
  const makeGithub = (change: object = {}) => create({ provider: 'github', secret, ...change })
  const messages = async (source: string) =>
    (await api.ask('GET', `/app/${app}/msg?channel=${source}`)).json.data as Record<string, unknown>[]

  test('a source takes a signed webhook in, and the bytes that came are the message', async () => {
    const source = await makeGithub({ uid: 'repo' })
    assert.deepEqual(
      [source.provider, source.name, source.secret, source.secrets, source.disabled],
      ['github', 'GitHub', null, [{ expiresAt: null }], false],
    )
    assert.match(source.path, /^\/in\/in_[0-9A-Za-z]{27}$/)
    for (const path of [source.path, new URL(source.ingressUrl).pathname]) {
      const delivery = { 'x-github-delivery': `d ${path}` }
      const { status, json, headers } = await api.ask('POST', path, push, github(push, delivery))
      assert.equal(status, 202, JSON.stringify(json))
      assert.equal(headers['sluice-message-id'], json.id)
      const message = await api.store.findMessage((await application()).key, json.id)
      assert.deepEqual(Buffer.from(message?.body ?? []), push)
      assert.deepEqual(
        [message?.eventType, message?.contentType, message?.channels, message?.eventId],
        ['push', 'application/json', [source.id], null],
      )
      const [outgoing] = await api.store.loadMessages([message?.key ?? 0])
      assert.equal(outgoing?.arrivedHeaders?.['x-github-event'], 'push')
      assert.equal(outgoing?.arrivedHeaders?.['x-hub-signature-256'], sign(push))
      assert.deepEqual(
        ['authorization', 'host', 'content-length'].filter((name) => name in (outgoing?.arrivedHeaders ?? {})),
        [],
      )
    }
    assert.equal((await messages(source.id)).length, 2)
  })

  const application = async () => (await api.store.findApplication(app)) ?? assert.fail('there is no application')

  test('an event that comes again is answered with its first message', async () => {
    const source = await makeGithub()
    const answers = await Promise.all([1, 2, 3].map(() => api.ask('POST', source.path, push, github())))
    assert.deepEqual(
      answers.map(({ status }) => status),
      [202, 202, 202],
    )
    assert.equal(new Set(answers.map(({ json }) => json.id)).size, 1)
    const again = await api.ask('POST', source.path, push, github())
    assert.deepEqual([again.status, again.json.id], [202, answers[0]?.json.id])
    // The same event at another source is another message.
    const other = await makeGithub()
    assert.notEqual((await api.ask('POST', other.path, push, github())).json.id, again.json.id)
    assert.equal((await messages(source.id)).length, 1)
  })

  test('events with ids of their own and the same content are all stored, whatever the dedupe window', async () => {
    const made = await api.ask('POST', '/api/v1/app', { name: 'Dedupe', dedupeSeconds: 600 })
    const { status, json } = await api.ask('POST', `/app/${made.json.id}/source`, { provider: 'github', secret })
    assert.equal(status, 201, JSON.stringify(json))
    const send = async (delivery: string) => {
      const { pathname } = new URL(json.url)
      return (await api.ask('POST', pathname, push, github(push, { 'x-github-delivery': delivery }))).json.id
    }
    const [first, second] = [await send('one'), await send('two')]
    assert.notEqual(first, second)
    assert.deepEqual([await send('one'), await send('two')], [first, second])
  })

  test('a wrong signature is answered 401, stores nothing but a sample, and tells the sender no reason', async () => {
    const source = await makeGithub()
    const wrong = github(push, {
      'x-hub-signature-256': sign(push, 'another secret'),
      authorization: 'Bearer stolen-canary',
      cookie: 'session=stolen-canary',
    })
    const { status, json } = await api.ask('POST', `${source.path}?key=stolen-canary`, push, wrong)
    assert.deepEqual([status, json.code, json.detail], [401, 'not_verified', 'The request could not be verified.'])
    assert.deepEqual(await messages(source.id), [])
    const { data } = await noted(source.id)
    assert.equal(data.length, 1)
    const [sample] = data
    assert.deepEqual(
      [sample.code, sample.method, sample.query, sample.bytes, sample.headers['x-github-event'], sample.unsampled],
      ['wrong_signature', 'POST', 'key', push.length, 'push', 0],
    )
    assert.deepEqual(Buffer.from(sample.body, 'base64'), push)
    assert.doesNotMatch(JSON.stringify(data), /canary|sha256=/)
    const { arrivals } = (await api.ask('GET', `/app/${app}/source/${source.id}`)).json
    assert.deepEqual(
      [arrivals.accepted, arrivals.refused, arrivals.refusedInRow, arrivals.refusedCode],
      [0, 1, 1, 'wrong_signature'],
    )
  })

  test('a token, a JWT or a signature in a header of any name is neither sampled nor kept with a message', async () => {
    const [token, jwt] = ['a-token-of-a-source-canary', 'a.jwt.canary']
    const named = await create({ provider: 'token', secret: token, settings: { tokenName: 'X-Badge' } })
    const forged = [
      [named, 'x-badge', `${token}x`],
      [await create({ provider: 'jwt', secret: 's'.repeat(32), settings: { header: 'X-Pass' } }), 'x-pass', jwt],
      [await create({ provider: 'hmac', settings: { header: 'X-Seal' } }), 'x-seal', 'canary'],
      [await create({ provider: 'shopify', secret }), 'x-shopify-hmac-sha256', 'canary'],
      [await create({ provider: 'twilio', secret }), 'x-twilio-signature', 'canary'],
      [await makeGithub(), 'x-hub-signature-256', 'canary'],
      // The proof of another provider, whose URL was mistaken for this one.
      [await makeGithub(), 'x-shopify-hmac-sha256', 'canary'],
    ] as const
    for (const [source, header, value] of forged) {
      assert.equal((await api.ask('POST', source.path, push, { authorization: '', [header]: value })).status, 401)
    }
    for (const [source, header] of forged) {
      const { data } = await noted(source.id)
      assert.equal(data[0].headers[header], '***')
      assert.doesNotMatch(JSON.stringify(data[0].headers), /canary/)
    }
    const { json } = await api.ask('POST', named.path, push, { authorization: '', 'x-badge': token, 'x-other': 'kept' })
    const message = await api.store.findMessage((await application()).key, json.id)
    const [outgoing] = await api.store.loadMessages([message?.key ?? 0])
    assert.deepEqual(
      [outgoing?.arrivedHeaders?.['x-other'], outgoing?.arrivedHeaders?.['x-badge']],
      ['kept', undefined],
    )
  })

  test('the URL of public keys is one that could be an endpoint, when it is set; another change leaves it alone', async () => {
    for (const jwksUrl of ['http://keys.example/jwks', 'https://10.0.0.1/jwks', 'https://[::1]/']) {
      const { status, json } = await api.ask('POST', `/app/${app}/source`, { provider: 'jwt', settings: { jwksUrl } })
      assert.equal(status, 422, jwksUrl)
      assert.deepEqual(json.detail[0].loc, ['body', 'settings', 'jwksUrl'])
    }
    const source = await create({ provider: 'jwt', settings: { jwksUrl: 'https://keys.example/jwks' } })
    const change = (body: object) => api.ask('PATCH', `/app/${app}/source/${source.id}`, body)
    assert.equal((await change({ settings: { jwksUrl: 'http://keys.example/jwks' } })).status, 422)
    const { key } = await application()
    const stored = (await api.store.findSource(key, source.id)) ?? assert.fail('there is no source')
    // As an earlier version took it.
    const settings = { ...stored.settings, jwksUrl: 'http://keys.example/jwks' }
    await api.store.updateSource(key, stored.key, { settings })
    assert.equal((await change({ name: 'Renamed' })).status, 200)
    assert.equal((await change({ settings })).status, 200)
  })

  test('keys that cannot be fetched are named in the sample, and not to the sender', async () => {
    const jwksUrl = 'https://keys.internal.invalid/jwks.json'
    const source = await create({ provider: 'jwt', settings: { jwksUrl } })
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const token = `${part({ alg: 'RS256' })}.${part({ exp: 4_000_000_000 })}.AAAA`
    const { status, json, headers } = await api.ask('POST', source.path, push, { authorization: `Bearer ${token}` })
    assert.deepEqual([status, json.detail], [503, 'The request cannot be verified now.'])
    assert.equal(headers['retry-after'], '30')
    const [sample] = (await noted(source.id)).data
    assert.deepEqual([sample.code, sample.reason], ['unavailable', `The keys of ${jwksUrl} cannot be fetched.`])
  })

  /** The samples of a source, once they are written. */
  const noted = async (source: string) => {
    for (;;) {
      const { json } = await api.ask('GET', `/app/${app}/source/${source}/sample`)
      if (json.data.length > 0) return json
      await new Promise<void>((resolve) => systemClock.after(20, resolve))
    }
  }

  test('an unknown, deleted or disabled source is answered alike', async () => {
    const source = await makeGithub()
    const { path } = source
    await api.ask('PATCH', `/app/${app}/source/${source.id}`, { disabled: true })
    const other = await makeGithub()
    await api.ask('DELETE', `/app/${app}/source/${other.id}`)
    const wrongTail = `${path.slice(0, -3)}${path.endsWith('aaa') ? 'bbb' : 'aaa'}`
    const answers = []
    for (const url of [
      path,
      other.path,
      wrongTail,
      '/in/x',
      `/in/${source.id.slice(4)}`,
      `/ingress/${path.slice(4)}x`,
    ]) {
      answers.push(await api.ask('POST', url, push, github()))
    }
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([404]))
    assert.deepEqual(new Set(answers.map(({ json }) => json.detail)), new Set(['There is no such source.']))
  })

  test('a source without verification takes requests at its token alone', async () => {
    const source = await create({ provider: 'none', settings: { acceptUnsigned: true } })
    assert.equal(source.ingressUrl, null)
    const headers = { authorization: '', 'content-type': 'text/plain; charset=latin1' }
    const body = Buffer.from([0x68, 0xe9, 0x00, 0xff])
    assert.equal((await api.ask('POST', `/ingress/${source.id}`, body, headers)).status, 404)
    const { status, json } = await api.ask('POST', source.path, body, headers)
    assert.equal(status, 202)
    const message = await api.store.findMessage((await application()).key, json.id)
    assert.deepEqual([message?.contentType, [...(message?.body ?? [])]], [headers['content-type'], [...body]])
    const refused = await api.ask('POST', `/app/${app}/source`, { provider: 'none' })
    assert.equal(refused.status, 422)
  })

  test('a rotated token and a rotated secret count beside the new one until their grace is over', async () => {
    const source = await makeGithub()
    const at = `/app/${app}/source/${source.id}`
    const moved = (await api.ask('POST', `${at}/token/rotate`, {})).json
    assert.equal(moved.tokens.length, 2)
    const path = new URL(moved.url).pathname
    assert.notEqual(path, source.path)
    const made = (await api.ask('POST', `${at}/secret/rotate`, {})).json.secret
    assert.match(made, /^[0-9a-f]{64}$/)
    let n = 0
    const sent = async (url: string, key: string) => {
      const headers = github(push, { 'x-hub-signature-256': sign(push, key), 'x-github-delivery': `r${++n}` })
      return (await api.ask('POST', url, push, headers)).status
    }
    await eventually(async () => (await sent(path, made)) === 202)
    assert.deepEqual([await sent(source.path, secret), await sent(path, secret)], [202, 202])
    await api.ask('POST', `${at}/secret/rotate`, { secret: 'the last one', gracePeriodSeconds: 0 })
    await api.ask('POST', `${at}/token/rotate`, { gracePeriodSeconds: 0 })
    await eventually(async () => (await sent(path, 'the last one')) === 404)
    const last = new URL((await api.ask('GET', at)).json.url).pathname
    assert.deepEqual(
      [await sent(last, 'the last one'), await sent(last, made), await sent(last, secret)],
      [202, 401, 401],
    )
  })

  /** A change of a source works within a second. */
  const eventually = async (holds: () => Promise<boolean>) => {
    while (!(await holds())) await new Promise<void>((resolve) => systemClock.after(50, resolve))
  }

  test('answers are those that the provider expects', async () => {
    const ping = Buffer.from('{"zen":"Keep it logically awesome."}')
    const source = await makeGithub()
    const pinged = await api.ask('POST', source.path, ping, github(ping, { 'x-github-event': 'ping' }))
    assert.equal(pinged.status, 200)
    assert.deepEqual(await messages(source.id), [])
    const meta = await create({
      provider: 'meta',
      secret: 'an app secret',
      settings: { verifyToken: 'my verify token' },
    })
    assert.deepEqual([meta.settings.verifyToken, meta.sensitiveSettings], [undefined, ['verifyToken']])
    const query = 'hub.mode=subscribe&hub.verify_token=my%20verify%20token&hub.challenge=1158201444'
    const challenge = await api.app.inject({ method: 'GET', url: `${meta.path}?${query}` })
    assert.deepEqual([challenge.statusCode, challenge.body], [200, '1158201444'])
    const forged = await api.app.inject({ method: 'GET', url: `${meta.path}?${query.replace('my', 'no')}` })
    assert.equal(forged.statusCode, 401)
    const wrongMethod = await api.app.inject({ method: 'GET', url: source.path })
    assert.equal(wrongMethod.statusCode, 405)
  })

  test('a secret setting that a change leaves out stays', async () => {
    const meta = await create({
      provider: 'meta',
      secret: 'an app secret',
      settings: { verifyToken: 'my verify token' },
    })
    const at = `/app/${app}/source/${meta.id}`
    const changed = await api.ask('PATCH', at, { settings: { replayWindowSeconds: 60 } })
    assert.deepEqual(
      [changed.status, changed.json.settings.replayWindowSeconds, changed.json.sensitiveSettings],
      [200, 60, ['verifyToken']],
    )
    const stored = await api.store.findSource((await application()).key, meta.id)
    assert.deepEqual(stored?.settings, { verifyToken: 'my verify token', replayWindowSeconds: 60 })
    assert.equal((await api.ask('PATCH', at, { settings: { verifyToken: null } })).status, 422)
  })

  test('a key that may only read sees no token, and a key of another application no source', async () => {
    const source = await makeGithub()
    const keyFor = async (fields: object) =>
      (await api.ask('POST', '/api/v1/api-key', { name: 'k', ...fields })).json.token
    const reader = { authorization: `Bearer ${await keyFor({ scopes: ['read'] })}` }
    const shown = await api.ask('GET', `/app/${app}/source/${source.id}`, undefined, reader)
    assert.deepEqual([shown.status, shown.json.url], [200, null])
    assert.equal((await api.ask('GET', `/app/${app}/source/${source.id}/sample`, undefined, reader)).status, 403)
    await api.ask('POST', '/api/v1/app', { name: 'Other', uid: 'other' })
    const stranger = { authorization: `Bearer ${await keyFor({ scopes: ['admin'], app: 'other' })}` }
    assert.equal((await api.ask('GET', `/app/${app}/source/${source.id}`, undefined, stranger)).status, 404)
    assert.equal((await api.ask('GET', `/app/other/source/${source.id}`, undefined, stranger)).status, 404)
  })

  test('a request can be judged without storing it', async () => {
    const source = await makeGithub()
    const ask = async (change: object) =>
      (
        await api.ask('POST', `/app/${app}/source/${source.id}/test`, {
          headers: github(),
          body: push.toString(),
          ...change,
        })
      ).json
    assert.deepEqual(await ask({}), {
      result: 'event',
      eventType: 'push',
      eventId: '72d3162e-cc78-11e3-81ab-4c9367dc0958',
      code: null,
      reason: null,
    })
    assert.equal((await ask({ body: `${push}\n` })).code, 'wrong_signature')
    assert.equal((await ask({ body: undefined, bodyBase64: push.toString('base64') })).result, 'event')
    assert.deepEqual(await messages(source.id), [])
  })

  test('a source of a provider that shows its secret with the URL waits for the secret, and loses nothing', async () => {
    const source = await create({ provider: 'stripe' })
    assert.deepEqual([source.secret, source.secrets], [null, []])
    const body = Buffer.from('{"id":"evt_1","type":"charge.succeeded"}')
    const time = Math.floor(systemClock.now() / 1000)
    const made = createHmac('sha256', 'whsec_late').update(`${time}.${body}`).digest('hex')
    const sent = () =>
      api.ask('POST', source.path, body, {
        authorization: '',
        'content-type': 'application/json',
        'stripe-signature': `t=${time},v1=${made}`,
      })
    const early = await sent()
    assert.deepEqual([early.status, early.headers['retry-after'], await messages(source.id)], [503, '60', []])
    const rotated = await api.ask('POST', `/app/${app}/source/${source.id}/secret/rotate`, { secret: 'whsec_late' })
    assert.equal(rotated.status, 200)
    await eventually(async () => (await sent()).status === 202)
    assert.equal((await messages(source.id)).length, 1)
  })

  test('a list of sources takes as many queries for ten sources as for one', async (t) => {
    const asked: string[] = []
    const { arrivalSums, applicationRefs } = api.store
    const counting = await openApi({
      store: {
        ...api.store,
        arrivalSums: (keys) => {
          asked.push('arrivalSums')
          return arrivalSums(keys)
        },
        applicationRefs: (keys) => {
          asked.push('applicationRefs')
          return applicationRefs(keys)
        },
      },
    })
    t.after(() => counting.app.close())
    await Promise.all(Array.from({ length: 10 }, () => makeGithub()))
    for (const path of ['/api/v1/source', '/ingest/api/v1/source']) {
      asked.length = 0
      const { json } = await counting.ask('GET', `${path}?limit=10`)
      assert.deepEqual(new Set(json.data.map(({ appId }: { appId: string }) => appId)), new Set([app]))
      assert.deepEqual([json.data.length, asked.sort()], [10, ['applicationRefs', 'arrivalSums']], path)
    }
  })

  test('problems of a new source are named field by field', async () => {
    const problems = async (body: object) => {
      const { status, json } = await api.ask('POST', `/app/${app}/source`, body)
      assert.equal(status, 422)
      return json.detail.map(({ loc, msg }: { loc: string[]; msg: string }) => `${loc.join('.')} ${msg}`)
    }
    assert.match((await problems({ provider: 'gitlab' }))[0], /body.provider/)
    assert.match(
      (await problems({ provider: 'hmac', settings: { hash: 'md5' } })).join(),
      /settings.header is required/,
    )
    assert.match((await problems({ provider: 'github', settings: { constructor: 1 } })).join(), /constructor/)
  })
})
