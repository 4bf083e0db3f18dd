import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { describe, test } from 'node:test'
import { AppError } from '../../src/domain/app-error.ts'
import { allAtOnce } from '../../src/domain/turns.ts'
import type { Judgement } from '../../src/sources/arrival.ts'
import { type ProviderName, providerNames, providers } from '../../src/sources/providers.ts'
import { type Settings, settingsProblems } from '../../src/sources/settings.ts'
import { openVerifier } from '../../src/sources/verifier.ts'
import { arrivalOf, judged, noKeySets, secondsOf, verifierOf } from './arrivals.ts'

const now = 1_760_000_000_000
const secret = 'a secret of the source'

function hex(text: string, key = secret): string {
  return createHmac('sha256', key).update(text).digest('hex')
}

function codeOf(judgement: Judgement): string {
  return judgement.kind === 'refused' ? judgement.code : judgement.kind
}

function slackArrival(body: string, timestamp = secondsOf(now)) {
  const signature = `v0=${hex(`v0:${timestamp}:${body}`)}`
  return arrivalOf({ headers: { 'x-slack-signature': signature, 'x-slack-request-timestamp': timestamp }, body })
}

describe('handshakes', () => {
  test("Slack's challenge is answered when it is signed", async () => {
    const arrival = slackArrival('{"token":"x","challenge":"3eZbrw1aBm2rZgRNFdxV2595","type":"url_verification"}')
    const judgement = await judged('slack', { secret }, arrival, now)
    assert.deepEqual(judgement, {
      kind: 'answer',
      answer: {
        status: 200,
        headers: { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' },
        body: '3eZbrw1aBm2rZgRNFdxV2595',
      },
    })
    assert.equal(codeOf(await judged('slack', { secret: 'other' }, arrival, now)), 'wrong_signature')
  })

  test('a challenge without measure is an event like any other', async () => {
    for (const challenge of ['x'.repeat(2000), 5, null]) {
      const arrival = slackArrival(JSON.stringify({ type: 'url_verification', challenge }))
      assert.equal((await judged('slack', { secret }, arrival, now)).kind, 'event')
    }
  })

  test("GitHub's ping is answered when it is signed", async () => {
    const arrival = (signature: string) =>
      arrivalOf({
        headers: { 'x-github-event': 'ping', 'x-hub-signature-256': `sha256=${signature}` },
        body: '{"zen":1}',
      })
    assert.equal((await judged('github', { secret }, arrival(hex('{"zen":1}')))).kind, 'answer')
    assert.equal((await judged('github', { secret }, arrival(hex('{}')))).kind, 'refused')
  })

  test("Meta's challenge is answered for the right verify token", async () => {
    const verifier = verifierOf('meta', { secret, settings: { verifyToken: 'my-verify-token' } })
    const ask = async (query: string) => {
      const arrival = { ...arrivalOf({ body: '' }), method: 'GET', url: `https://sluice.example/in/x?${query}` }
      const judgement = await verifier.judge(arrival, now)
      return judgement.kind === 'answer' ? judgement.answer.body : codeOf(judgement)
    }
    const right = 'hub.mode=subscribe&hub.verify_token=my-verify-token'
    assert.equal(await ask(`${right}&hub.challenge=1158201444`), '1158201444')
    assert.equal(await ask('hub.mode=subscribe&hub.verify_token=my-verify-toke&hub.challenge=1'), 'wrong_signature')
    for (const query of [
      '',
      right,
      `${right}&hub.challenge=1&hub.challenge=2`,
      `${right}&hub.verify_token=other&hub.challenge=1`,
      `${right}&hub.challenge=${'1'.repeat(1025)}`,
      `hub.mode=unsubscribe&hub.verify_token=my-verify-token&hub.challenge=1`,
    ]) {
      assert.equal(await ask(query), 'malformed', query)
    }
  })

  test('other methods are refused', async () => {
    for (const name of providerNames.filter((each) => each !== 'meta')) {
      for (const method of ['GET', 'PUT', 'DELETE', 'post', 'HEAD']) {
        const verifier = verifierOf(name, { ...validly(name) })
        assert.equal(codeOf(await verifier.judge({ ...arrivalOf(), method }, now)), 'wrong_method', name)
      }
    }
  })
})

/** Settings and a secret with which a verifier of the provider opens. */
function validly(name: ProviderName): { settings: Settings; secret?: string } {
  const settings: Partial<Record<ProviderName, Settings>> = {
    meta: { verifyToken: 'my-verify-token' },
    hmac: { header: 'x-signature' },
    jwt: { jwksUrl: 'https://keys.example/' },
    basic: { username: 'user' },
    none: { acceptUnsigned: true },
  }
  const needsNone = name === 'none' || name === 'jwt'
  const own = name === 'standard' ? 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' : secret
  return { settings: settings[name] ?? {}, ...(!needsNone && { secret: own }) }
}

describe('secrets', () => {
  test('several count at once, each until it expires', async () => {
    const secrets = [
      { secret: 'new', expiresAt: null },
      { secret: 'old', expiresAt: now + 1000 },
    ]
    const verifier = openVerifier(
      { provider: 'github', settings: {}, secrets },
      { keySets: noKeySets, compute: allAtOnce },
    )
    const kind = async (key: string, at: number) => {
      const headers = { 'x-hub-signature-256': `sha256=${hex('{}', key)}`, 'x-github-event': 'push' }
      return (await verifier.judge(arrivalOf({ headers }), at)).kind
    }
    assert.deepEqual([await kind('new', now), await kind('old', now)], ['event', 'event'])
    assert.deepEqual([await kind('new', now + 1000), await kind('old', now + 1000)], ['event', 'refused'])
  })

  test('expired ones alone prove nothing', async () => {
    for (const name of providerNames.filter((each) => each !== 'none' && each !== 'jwt')) {
      const given = validly(name)
      const secrets = [{ secret: given.secret ?? '', expiresAt: now }]
      const verifier = openVerifier(
        { provider: name, settings: given.settings, secrets },
        { keySets: noKeySets, compute: allAtOnce },
      )
      const basic = `Basic ${Buffer.from(`user:${secret}`).toString('base64')}`
      const headers = { authorization: name === 'basic' ? basic : secret, 'x-signature': hex('{}') }
      assert.equal((await verifier.judge(arrivalOf({ headers }), now)).kind, 'refused', name)
    }
  })

  test('of the wrong form, too many or missing ones are refused when a verifier opens', () => {
    const problemOf = (name: ProviderName, secrets: readonly string[], settings: Settings = validly(name).settings) =>
      settingsProblems(name, settings, secrets).map(({ at, message }) => `${at.slice(1).join('.')} ${message}`)
    assert.deepEqual(problemOf('github', []), ['secret is required: GitHub calls it "Secret"'])
    assert.deepEqual(problemOf('github', ['']), ['secret must be a text of 1 to 512 characters'])
    assert.deepEqual(problemOf('github', ['\ud800']), ['secret must be a text of 1 to 512 characters'])
    assert.deepEqual(problemOf('github', ['a', 'b', 'c', 'd']), [])
    assert.deepEqual(problemOf('github', ['a', 'b', 'c', 'd', 'e']), ['secret may be at most 4 at once'])
    assert.deepEqual(problemOf('none', ['a']), ['secret is not used by none'])
    assert.deepEqual(problemOf('token', ['short']), ['secret must be a text of 16 to 512 characters'])
    const standard = 'secret must be whsec_ and base64, or whpk_ and a public key in base64'
    for (const text of ['whsec_', 'whsec_é', 'whpk_AAAA', `whpk_${'A'.repeat(45)}`, 'not base64!']) {
      assert.deepEqual(problemOf('standard', [text]), [standard], text)
    }
    const encoded = (secretEncoding: string) => ({ header: 'x', secretEncoding })
    assert.deepEqual(problemOf('hmac', ['0g'], encoded('hex')), ['secret must be hex'])
    assert.deepEqual(problemOf('hmac', ['a_b'], encoded('base64')), ['secret must be base64'])
    assert.deepEqual(problemOf('hmac', ['0aFF'], encoded('hex')), [])
  })
})

describe('settings', () => {
  test('every provider opens with its required settings', () => {
    for (const name of providerNames) assert.ok(verifierOf(name, validly(name)), name)
  })

  test('every problem is named', () => {
    const problems = (name: ProviderName, settings: Settings) =>
      settingsProblems(name, settings, validly(name).secret === undefined ? [] : [validly(name).secret ?? '']).map(
        ({ at, message }) => `${at.slice(2).join('.')} ${message}`,
      )
    assert.deepEqual(problems('github', { constructor: 1, eventType: [], replayWindowSeconds: 1.5 }), [
      'constructor is no setting of github',
      'eventType must be a list of 1 to 4 values',
      'replayWindowSeconds must be a whole number from 0 to 2592000',
    ])
    assert.deepEqual(problems('meta', {}), ['verifyToken is required'])
    assert.deepEqual(problems('none', {}), ['acceptUnsigned is required'])
    assert.deepEqual(problems('none', { acceptUnsigned: false }), [
      'acceptUnsigned must be true: the source would take every request',
    ])
    assert.deepEqual(problems('hmac', { header: 'no header' }), ['header must be the name of a header'])
    assert.deepEqual(problems('hmac', { header: '__proto__' }), ['header must be the name of a header'])
    for (const signed of ['{bodies}', '{timestamp}', '{body', 'body}{', '{{body}}', '{body}}', '}{body']) {
      assert.match(problems('hmac', { header: 'x', signed, timestampHeader: 't' })[0] ?? '', /^signed must/, signed)
    }
    assert.match(problems('hmac', { header: 'x', signed: '{timestamp}{body}' })[0] ?? '', /^timestampHeader belongs/)
    assert.match(problems('hmac', { header: 'x', timestampHeader: 't' })[0] ?? '', /^timestampHeader belongs/)
    assert.match(problems('hmac', { header: 'x', signed: '{id}{body}' })[0] ?? '', /^idHeader belongs/)
    assert.deepEqual(problems('basic', { username: 'a:b' }), ['username must not contain a colon'])
    assert.deepEqual(problems('token', { tokenName: 'a b' }), ['tokenName must be the name of a header'])
    assert.deepEqual(problems('jwt', {}), ['jwksUrl give one of settings.jwksUrl, settings.keys and a secret'])
    assert.deepEqual(problems('jwt', { jwksUrl: 'file:///etc/passwd' }), ['jwksUrl must be an http or https URL'])
    assert.deepEqual(problems('jwt', { keys: '{}' }), ['keys must be a JWKS with a public key: {"keys": [{"kty": …}]}'])
    assert.match(
      problems('jwt', { jwksUrl: 'https://a.b', algorithms: ['HS256'] })[0] ?? '',
      /^algorithms must be HS256/,
    )
    assert.match(
      problems('jwt', { jwksUrl: 'https://a.b', algorithms: ['none'] })[0] ?? '',
      /^algorithms must be one of/,
    )
    for (const template of [
      '{',
      '}',
      '{a}',
      '{/a',
      '{header:}',
      '{header:a b}',
      '{/~2}',
      '{}',
      '{cookie:a}',
      'x'.repeat(257),
    ]) {
      assert.equal(problems('github', { eventType: [template] }).length, 1, template)
    }
  })

  test('a value has three JSON pointers at most', () => {
    const problems = (eventType: readonly string[]) => settingsProblems('github', { eventType }, [secret])
    assert.deepEqual(problems(['{/a}{/b}', '{/c}', '{/a}{/c}']), [])
    assert.equal(problems(['{/a}{/b}', '{/c}{/d}'])[0]?.message, 'may have at most 3 different JSON pointers')
  })

  test('a verifier does not open with a problem', () => {
    assert.throws(
      () => verifierOf('hmac', { secret }),
      (error) => error instanceof AppError && error.code === 'validation' && error.fields.length === 1,
    )
  })

  test('defaults of the table are valid, and null stands for them', () => {
    for (const name of providerNames) {
      const { settings } = providers[name]
      const defaults = Object.fromEntries(Object.entries(settings).map(([key, { fallback }]) => [key, fallback]))
      const given = validly(name)
      const secrets = given.secret === undefined ? [] : [given.secret]
      assert.deepEqual(settingsProblems(name, { ...defaults, ...given.settings }, secrets), [], name)
    }
  })
})

describe('the event', () => {
  const read = async (settings: Settings, given: Parameters<typeof arrivalOf>[0]) => {
    const judgement = await judged('none', { settings: { acceptUnsigned: true, ...settings } }, arrivalOf(given))
    assert.equal(judgement.kind, 'event')
    return judgement.kind === 'event' ? judgement : assert.fail()
  }

  test('has its type from the first template whose values are all there', async () => {
    const eventType = ['{header:x-type}.{/action}', '{header:x-type}', 'fixed']
    const typeOf = async (headers: Record<string, string>, body: string) =>
      (await read({ eventType }, { headers, body })).eventType
    assert.equal(await typeOf({ 'x-type': 'issues' }, '{"action":"opened"}'), 'issues.opened')
    assert.equal(await typeOf({ 'x-type': 'push' }, '{}'), 'push')
    assert.equal(await typeOf({ 'x-type': 'push' }, '{"action":{}}'), 'push')
    assert.equal(await typeOf({ 'x-type': '' }, 'no json'), 'fixed')
  })

  test('has a type that is a valid name, whatever the sender sends', async () => {
    const typeOf = async (type: string) => (await read({}, { body: JSON.stringify({ type }) })).eventType
    assert.equal(await typeOf('orders/create'), 'orders.create')
    assert.equal(await typeOf('/deploy now'), 'deploy.now')
    assert.equal(await typeOf('ünïcode*'), '_n_code_')
    assert.equal(await typeOf('../../..'), 'none')
    assert.equal(await typeOf('a'.repeat(1000)), 'a'.repeat(256))
    assert.equal(await typeOf('\ud800'), '_')
  })

  test('has its id by header, pointer or form, and none without a value', async () => {
    const eventId = ['{header:x-id}', '{/data/0/id}', '{form:Sid}']
    const idOf = async (given: Parameters<typeof arrivalOf>[0]) => (await read({ eventId }, given)).eventId
    assert.equal(await idOf({ headers: { 'x-id': 'abc' } }), 'abc')
    assert.equal(await idOf({ body: '{"data":[{"id":12345678901234567890}]}' }), '12345678901234567890')
    assert.equal(await idOf({ body: '{"data":[{"id":"e\\u0041"}]}' }), 'eA')
    const form = { 'content-type': 'Application/X-WWW-Form-Urlencoded; charset=utf-8' }
    assert.equal(await idOf({ headers: form, body: 'a=b&Sid=SM%31' }), 'SM1')
    assert.equal(await idOf({ headers: form, body: `${'a&'.repeat(1000)}Sid=1` }), undefined)
    assert.equal(await idOf({ body: '{"data":[{"id":true}]}' }), undefined)
    assert.equal(await idOf({ body: '{"data":[' }), undefined)
    assert.match((await idOf({ headers: { 'x-id': 'ü'.repeat(300) } })) ?? '', /^sha256:[0-9a-f]{64}$/)
  })

  test('of a request that Svix signed has the id that was signed, whatever webhook-id says', async () => {
    const key = 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
    const text = `msg_1.${secondsOf(now)}.{}`
    const signature = `v1,${createHmac('sha256', Buffer.from(key, 'base64')).update(text).digest('base64')}`
    const idOf = async (family: string, more: Record<string, string>, settings: Settings = {}) => {
      const headers = {
        [`${family}-id`]: 'msg_1',
        [`${family}-timestamp`]: secondsOf(now),
        [`${family}-signature`]: signature,
        ...more,
      }
      const judgement = await judged('standard', { secret: `whsec_${key}`, settings }, arrivalOf({ headers }), now)
      return judgement.kind === 'event' ? judgement.eventId : codeOf(judgement)
    }
    assert.equal(await idOf('svix', { 'webhook-id': 'forged' }), 'msg_1')
    assert.equal(await idOf('svix', { 'webhook-id': 'forged' }, { eventId: ['{header:webhook-id}'] }), undefined)
    const ownOrder = { eventId: ['{header:Svix-Id}', '{header:webhook-id}'] }
    assert.equal(await idOf('webhook', { 'svix-id': 'forged' }, ownOrder), 'msg_1')
    assert.equal(await idOf('webhook', { 'svix-id': 'msg_1', 'svix-signature': signature }), 'msg_1')
  })

  test('keeps the content type, and has a general one when it has none', async () => {
    const typeOf = async (contentType: string | undefined) =>
      (await read({}, { headers: { 'content-type': contentType } })).contentType
    assert.equal(await typeOf('text/xml; charset=utf-8'), 'text/xml; charset=utf-8')
    for (const wrong of [undefined, '', ' ', 'a\r\nb: c', 'é', 'x'.repeat(257)]) {
      assert.equal(await typeOf(wrong), 'application/octet-stream')
    }
  })
})

describe('credentials', () => {
  test('a user name and a password', async () => {
    const verifier = verifierOf('basic', { secret, settings: { username: 'user' } })
    const code = async (authorization: string) =>
      codeOf(await verifier.judge(arrivalOf({ headers: { authorization } }), now))
    const encoded = (text: string) => Buffer.from(text).toString('base64')
    assert.equal(await code(`Basic ${encoded(`user:${secret}`)}`), 'event')
    assert.equal(await code(`basic  ${encoded(`user:${secret}`)}`), 'event')
    assert.equal(await code(`Basic ${encoded(`user:${secret}x`)}`), 'wrong_signature')
    assert.equal(await code(`Basic ${encoded(`User:${secret}`)}`), 'wrong_signature')
    for (const text of ['Basic', 'Basic é', `Bearer ${encoded(`user:${secret}`)}`, '']) {
      assert.equal(await code(text), 'not_signed')
    }
  })

  test('a token in a header or in the query', async () => {
    const header = verifierOf('token', { secret, settings: { tokenName: 'X-Gitlab-Token' } })
    const inHeader = async (value: string) =>
      codeOf(await header.judge(arrivalOf({ headers: { 'x-gitlab-token': value } }), now))
    assert.equal(await inHeader(secret), 'event')
    assert.equal(await inHeader(`${secret} `), 'wrong_signature')
    assert.equal(codeOf(await header.judge(arrivalOf(), now)), 'not_signed')
    for (const prefix of ['Bearer', 'Bearer ']) {
      const bearer = verifierOf('token', { secret, settings: { prefix } })
      const code = async (authorization: string) =>
        codeOf(await bearer.judge(arrivalOf({ headers: { authorization } }), now))
      assert.equal(await code(`Bearer ${secret}`), 'event')
      assert.equal(await code(secret), 'wrong_signature')
      assert.equal(await code(`Basic ${secret}`), 'wrong_signature')
    }
    const plain = verifierOf('token', { secret })
    for (const [authorization, code] of [
      [secret, 'event'],
      [`Bearer ${secret}`, 'event'],
      [`bearer  ${secret}`, 'event'],
      [`Basic ${secret}`, 'wrong_signature'],
      [`Bearer Bearer ${secret}`, 'wrong_signature'],
    ] as const) {
      assert.equal(codeOf(await plain.judge(arrivalOf({ headers: { authorization } }), now)), code, authorization)
    }
    const query = verifierOf('token', { secret, settings: { tokenPlace: 'query', tokenName: 'key' } })
    const inQuery = async (text: string) =>
      codeOf(await query.judge(arrivalOf({ url: `https://sluice.example/in/x?${text}` }), now))
    assert.equal(await inQuery(`key=${encodeURIComponent(secret)}`), 'event')
    assert.equal(await inQuery('key=other'), 'wrong_signature')
    assert.equal(await inQuery(`key=${encodeURIComponent(secret)}&key=x`), 'not_signed')
    assert.equal(await inQuery(''), 'not_signed')
  })
})

test('one of several signatures in a header is enough', async () => {
  const settings = { header: 'x-signature', prefix: 'HMAC', encoding: 'base64' }
  const right = `HMAC ${createHmac('sha256', secret).update('{}').digest('base64')}`
  const wrong = `HMAC ${'A'.repeat(43)}=`
  for (const [separator, character] of [
    ['comma', ','],
    ['space', ' '],
    ['semicolon', '; '],
    [null, ''],
  ] as const) {
    const of = (...entries: string[]) => arrivalOf({ headers: { 'x-signature': entries.join(character) } })
    const code = async (...entries: string[]) =>
      codeOf(await judged('hmac', { secret, settings: { ...settings, separator } }, of(...entries)))
    const several = separator === null || separator === 'space' ? 'wrong_signature' : 'event'
    assert.equal(await code(wrong, right), several, String(separator))
    assert.equal(await code(wrong, wrong), 'wrong_signature')
  }
  assert.equal(
    codeOf(await judged('hmac', { secret, settings }, arrivalOf({ headers: { 'x-signature': right } }))),
    'event',
  )
})

test('a large body without an id is judged in a moment', async () => {
  const eventType = ['{/a}', '{/b}', '{/c}']
  const settings = { acceptUnsigned: true, eventType, eventId: ['{/d}', '{/e}', '{/f}'] }
  const repeated = (text: string) =>
    `{${Array(Math.floor(1_048_000 / text.length))
      .fill(text)
      .join('')}"x":1}`
  // Each key was decoded once, which took 300 ms for the first of these.
  for (const body of [
    repeated('"":1,'),
    repeated('"\\u0062":1,'),
    repeated('"x":[{}],'),
    `{"x":${'['.repeat(1_048_000)}`,
  ]) {
    const arrival = arrivalOf({ body })
    let ms = Number.POSITIVE_INFINITY
    // Processor time, and the shortest of three: other processes may hold the machine.
    for (let i = 0; i < 3; i++) {
      const before = process.threadCpuUsage()
      await judged('none', { settings }, arrival)
      const { user, system } = process.threadCpuUsage(before)
      ms = Math.min(ms, (user + system) / 1000)
    }
    assert.ok(ms < 500, `${ms} ms of processor time for ${body.slice(0, 20)}`)
  }
})

describe('timestamps', () => {
  test('outside the tolerance are stale, in either direction, and only digits are times', async () => {
    const at = async (timestamp: string) =>
      codeOf(await judged('slack', { secret }, slackArrival('{}', timestamp), now))
    const seconds = now / 1000
    assert.equal(await at(String(seconds - 300)), 'event')
    assert.equal(await at(String(seconds + 300)), 'event')
    assert.equal(await at(String(seconds - 301)), 'stale')
    assert.equal(await at(String(seconds + 301)), 'stale')
    assert.equal(await at('0'), 'stale')
    assert.equal(await at('999999999999999'), 'stale')
    for (const text of [
      '',
      'NaN',
      '-1',
      `${seconds}.0`,
      `+${seconds}`,
      ` ${seconds}`,
      '1e9',
      '0x1',
      '9'.repeat(16),
      '١',
    ]) {
      assert.equal(await at(text), 'malformed', text)
    }
  })

  test('two in one header of Stripe are refused', async () => {
    const seconds = secondsOf(now)
    const header = `t=${seconds},t=1,v1=${hex(`${seconds}.{}`)}`
    const judgement = await judged('stripe', { secret }, arrivalOf({ headers: { 'stripe-signature': header } }), now)
    assert.equal(codeOf(judgement), 'malformed')
  })
})

describe('Twilio', () => {
  const twilio = (url: string, body: string, signedText: string, contentType = 'application/x-www-form-urlencoded') => {
    const signature = createHmac('sha1', secret).update(signedText).digest('base64')
    const headers = { 'content-type': contentType, 'x-twilio-signature': signature }
    return judged('twilio', { secret }, arrivalOf({ url, headers, body }))
  }

  test('the URL is signed with or without its port', async () => {
    for (const [url, signed] of [
      ['https://a.b/in/x', 'https://a.b:443/in/x'],
      ['https://a.b:443/in/x', 'https://a.b/in/x'],
      ['http://a.b/in/x', 'http://a.b:80/in/x'],
      ['https://a.b:8443/in/x', 'https://a.b/in/x'],
      ['https://a.b/in/x?y=1', 'https://a.b/in/x?y=1'],
    ] as const) {
      assert.equal((await twilio(url, 'B=2&a=1&A=0', `${signed}A0B2a1`)).kind, 'event', signed)
    }
    assert.equal((await twilio('https://a.b/in/x', 'a=1', 'https://a.b/in/ya1')).kind, 'refused')
  })

  test('a field that comes twice counts once for each value, sorted', async () => {
    assert.equal((await twilio('https://a.b/', 'a=2&a=1&a=2', 'https://a.b/a1a2')).kind, 'event')
  })

  test('a body that the signature does not cover is refused', async () => {
    const url = 'https://a.b/'
    assert.equal(codeOf(await twilio(url, '{"a":1}', url, 'application/json')), 'malformed')
    assert.equal(codeOf(await twilio(url, 'a=1', url, '')), 'malformed')
    assert.equal(codeOf(await twilio(url, 'a&'.repeat(1001), url)), 'malformed')
    assert.equal((await twilio(url, '', url, '')).kind, 'event')
    const hashed = `${url}?bodySHA256=${'0'.repeat(64)}`
    assert.equal(codeOf(await twilio(hashed, '{}', hashed, 'application/json')), 'malformed')
  })
})
