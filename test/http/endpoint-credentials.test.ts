import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { openPostgresHarness } from '../store/postgres-harness.ts'
import { type Api, openApi } from './api.ts'

const fixture = (name: string) => readFileSync(new URL(`../sender/fixtures/${name}.pem`, import.meta.url), 'utf8')
const blocks = (pem: string, kind: string) => pem.split(/(?=-----BEGIN )/).filter((block) => block.includes(kind))
const certificateOf = (name: string) => ({
  certificate: blocks(fixture(name), 'BEGIN CERTIFICATE').join(''),
  key: blocks(fixture(name), 'PRIVATE KEY').join(''),
})
const first = certificateOf('client-first')
const second = certificateOf('client-second')
const chained = certificateOf('client-chained')

const url = 'https://receiver.example/hook'
const oauth = {
  kind: 'oauth2',
  tokenUrl: 'https://idp.example/token',
  clientId: 'sluice',
  clientSecret: 'canary-secret',
  scope: 'hooks',
}
const shownOauth = {
  ...{ kind: 'oauth2', username: null, tokenUrl: 'https://idp.example/token', clientId: 'sluice' },
  ...{ method: 'client_secret_basic', keyId: null, scope: 'hooks', audience: null },
}

interface Shown {
  readonly fingerprint: string
  readonly replaces: { readonly fingerprint: string } | null
}

async function opened(overrides?: Parameters<typeof openApi>[0]): Promise<Api> {
  const api = await openApi({ bodyLimitBytes: 256 * 1024, ...overrides })
  await api.ask('POST', '/app', { name: 'Acme', uid: 'acme' })
  assert.equal((await api.ask('POST', '/app/acme/endpoint', { url, uid: 'one' })).status, 201)
  return api
}

const one = '/app/acme/endpoint/one'

/** Sets credentials of every kind, and looks for secrets in every answer. */
async function setsCredentials(overrides?: Parameters<typeof openApi>[0]) {
  const api = await opened(overrides)
  const seen: string[] = []
  const patch = async (body: object) => {
    const answer = await api.ask('PATCH', one, body)
    seen.push(JSON.stringify(answer.json), JSON.stringify((await api.ask('GET', '/app/acme/endpoint')).json))
    assert.equal(answer.status, 200, JSON.stringify(answer.json))
    return answer.json as { auth: unknown; clientCertificate: Shown | null }
  }
  const none = {
    username: null,
    tokenUrl: null,
    clientId: null,
    method: null,
    keyId: null,
    scope: null,
    audience: null,
  }
  const bearer = await patch({ auth: { kind: 'bearer', token: 'canary-token' } })
  assert.deepEqual(bearer.auth, { kind: 'bearer', ...none })
  const basic = await patch({ auth: { kind: 'basic', username: 'me', password: 'canary-password' } })
  assert.equal((basic.auth as { username: string }).username, 'me')
  assert.deepEqual((await patch({ auth: oauth })).auth, shownOauth)
  // The stored secret stays when other fields of the same client change, and is never sent elsewhere.
  const { clientSecret: _secret, ...silent } = oauth
  assert.deepEqual((await patch({ auth: { ...silent, scope: 'other' } })).auth, { ...shownOauth, scope: 'other' })
  const elsewhere = { ...silent, tokenUrl: 'https://evil.example/token' }
  const stolen = await api.ask('PATCH', one, { auth: elsewhere })
  assert.equal(stolen.status, 422)
  assert.match(JSON.stringify(stolen.json), /clientSecret.*is needed: there is no stored one to keep/)

  // Its tokens go to no other host, either.
  for (const [method, body] of [
    ['PATCH', { url: 'https://evil.example/', auth: silent }],
    ['PUT', { url: 'https://evil.example/', auth: { ...silent, scope: 'all' } }],
  ] as const) {
    const moved = await api.ask(method, one, body)
    assert.equal(moved.status, 422, JSON.stringify(moved.json))
    assert.match(JSON.stringify(moved.json), /clientSecret.*is needed: there is no stored one to keep/)
  }

  const set = await patch({ clientCertificate: first })
  assert.equal(set.clientCertificate?.replaces, null)
  const rotated = await patch({ clientCertificate: second })
  assert.equal(rotated.clientCertificate?.replaces?.fingerprint, set.clientCertificate?.fingerprint)
  assert.deepEqual((await patch({ clientCertificate: second })).clientCertificate, rotated.clientCertificate)
  const cut = await patch({ clientCertificate: { ...chained, overlapSeconds: 0 } })
  assert.equal(cut.clientCertificate?.replaces, null)
  const put = await api.ask('PUT', one, { url, description: 'put' })
  assert.deepEqual((put.json as { auth: { scope: string } }).auth.scope, 'other')
  const removed = await patch({ auth: null, clientCertificate: null })
  assert.deepEqual([removed.auth, removed.clientCertificate], [null, null])

  const audit = await api.ask('GET', '/api/v1/audit?limit=100')
  seen.push(JSON.stringify(audit.json))
  for (const text of seen) assert.doesNotMatch(text, /canary|PRIVATE KEY/)
  assert.match(JSON.stringify(audit.json), /tokenUrl/)
}

describe('sqlite', () => {
  test('credentials are set, rotated, kept and removed, and no answer or audit row shows a secret', () =>
    setsCredentials())
})
describe('postgres', () => {
  test('credentials are set, rotated, kept and removed, and no answer or audit row shows a secret', async (t) => {
    const { store, close } = await openPostgresHarness()
    t.after(close)
    await setsCredentials({ store })
  })
})

const rsa = (bits: number) =>
  generateKeyPairSync('rsa', { modulusLength: bits }).privateKey.export({ type: 'pkcs8', format: 'pem' })
const ec = (curve: string) =>
  generateKeyPairSync('ec', { namedCurve: curve }).privateKey.export({ type: 'pkcs8', format: 'pem' })

const refused: readonly (readonly [string, object, RegExp])[] = [
  [
    'garbage as a certificate',
    { clientCertificate: { ...first, certificate: 'garbage' } },
    /certificate as PEM, beginning with/,
  ],
  [
    'a damaged certificate',
    { clientCertificate: { ...first, certificate: first.certificate.replace('MII', 'XXX') } },
    /PEM of certificate 1 is damaged/,
  ],
  ['garbage as a key', { clientCertificate: { ...first, key: 'garbage' } }, /private key as PEM, beginning with/],
  ['a certificate as a key', { clientCertificate: { ...first, key: first.certificate } }, /of the kind CERTIFICATE/],
  [
    'a key among the certificates',
    { clientCertificate: { ...first, certificate: first.certificate + first.key } },
    /give the private key in `key`/,
  ],
  ['the key of another', { clientCertificate: { ...first, key: second.key } }, /does not belong to the certificate/],
  [
    'an encrypted key',
    { clientCertificate: { ...first, key: fixture('client-encrypted-key') } },
    /is encrypted; decrypt it first: openssl pkey/,
  ],
  ['a weak key', { clientCertificate: { ...first, key: rsa(1024) } }, /must have 2048 to 4096 bits, not 1024/],
  [
    'a curve for coins',
    { clientCertificate: { ...first, key: ec('secp256k1') } },
    /on the curve P-256, P-384 or P-521/,
  ],
  [
    'a chain that begins with its issuer',
    {
      clientCertificate: {
        ...chained,
        certificate: blocks(chained.certificate, 'CERTIFICATE').toReversed().join(''),
      },
    },
    /must begin with the certificate of the key, which is number 2/,
  ],
  [
    'a chain with a stranger',
    { clientCertificate: { ...first, certificate: first.certificate + second.certificate } },
    /certificate 2 did not issue certificate 1/,
  ],
  [
    'a chain without end',
    { clientCertificate: { ...first, certificate: first.certificate.repeat(9) } },
    /at most 8 certificates/,
  ],
  [
    '100 KB of PEM',
    { clientCertificate: { ...first, certificate: '-----BEGIN X-----'.repeat(6000) } },
    /clientCertificate.*certificate/,
  ],
  ['a token with a line break', { auth: { kind: 'bearer', token: 'a\nb' } }, /printable ASCII/],
  ['a bearer without a token', { auth: { kind: 'bearer' } }, /is needed for the kind bearer/],
  [
    'fields of another kind',
    { auth: { kind: 'bearer', token: 'a', scope: 'b' } },
    /does not belong to the kind bearer/,
  ],
  ['a colon in a user name', { auth: { kind: 'basic', username: 'a:b', password: 'c' } }, /must not contain a colon/],
  ['no client secret', { auth: { ...oauth, clientSecret: null } }, /is needed: there is no stored one/],
  ['a token URL by http', { auth: { ...oauth, tokenUrl: 'http://idp.example/' } }, /does not use https/],
  ['a token URL inside', { auth: { ...oauth, tokenUrl: 'https://10.0.0.1/' } }, /is not public/],
  ['a private key beside a secret', { auth: { ...oauth, privateKey: first.key } }, /does not go with the method/],
  ['a broken private key', { auth: { ...oauth, clientSecret: null, privateKey: 'x' } }, /private key as PEM/],
  ['an unknown field', { auth: { ...oauth, secret: 'x' } }, /secret/],
]

test('wrong credentials are refused with the field, the reason and no secret', async () => {
  const api = await opened()
  for (const [what, body, reason] of refused) {
    const answer = await api.ask('PATCH', one, body)
    assert.equal(answer.status, 422, what)
    const text = JSON.stringify(answer.json)
    assert.match(text, reason, what)
    assert.doesNotMatch(text, /canary/, what)
  }
})

test('credentials do not follow a URL to another host', async () => {
  const api = await opened()
  await api.ask('PATCH', one, { auth: { kind: 'bearer', token: 'abc' } })
  assert.equal((await api.ask('PATCH', one, { url: 'https://receiver.example/other' })).status, 200)
  for (const method of ['PATCH', 'PUT']) {
    const moved = await api.ask(method, one, { url: 'https://evil.example/' })
    assert.equal(moved.status, 422)
    assert.match(JSON.stringify(moved.json), /stored credentials were given for https:\/\/receiver\.example/)
  }
  const again = await api.ask('PATCH', one, { url: 'https://new.example/', auth: { kind: 'bearer', token: 'abc' } })
  assert.equal(again.status, 200)
})

test('secret headers do not follow a URL to another host, whether an operator or a customer moves it', async () => {
  const api = await opened()
  const headers = { Authorization: 'Bearer canary', 'X-Api-Key': 'canary', 'X-Plain': 'shown' }
  assert.equal((await api.ask('PUT', `${one}/headers`, { headers })).status, 204)
  const { token } = (
    await api.ask('POST', '/api/v1/auth/app-portal-access/acme', { capabilities: ['ViewBase', 'ManageEndpoint'] })
  ).json
  const customer = { authorization: `Bearer ${token}` }
  const shown = (await api.ask('GET', `${one}/headers`, undefined, customer)).json
  assert.deepEqual(shown, { headers: { 'X-Plain': 'shown' }, sensitive: ['Authorization', 'X-Api-Key'] })
  for (const method of ['PATCH', 'PUT']) {
    for (const caller of [customer, {}]) {
      for (const moved of [
        'https://evil.example/',

        'https://receiver.example:8443/hook',
      ]) {
        const { status, json } = await api.ask(method, one, { url: moved }, caller)
        assert.equal(status, 422, moved)
        assert.match(
          JSON.stringify(json),
          /stored secret headers \(Authorization, X-Api-Key\) were given for https:\/\/receiver\.example; give all/,
        )
      }
    }
  }
  const stored = async () => {
    const app = (await api.store.findApplication('acme'))?.key ?? assert.fail()
    const { url, headers } = (await api.store.findEndpoint(app, 'one')) ?? assert.fail()
    return { url, headers }
  }
  assert.deepEqual(await stored(), { url, headers })
  // The same host, and headers that are given again or removed.
  assert.equal((await api.ask('PATCH', one, { url: 'https://receiver.example/other' }, customer)).status, 200)
  assert.deepEqual((await stored()).headers, headers)
  const given = { url: 'https://new.example/', headers: { 'X-Api-Key': 'own' } }
  assert.equal((await api.ask('PATCH', one, given, customer)).status, 200)
  assert.deepEqual(await stored(), given)
  const removed = await api.ask('PATCH', `${one}/headers`, {
    deleteHeaders: ['x-api-key'],
    headers: { 'X-Plain': 'a' },
  })
  assert.equal(removed.status, 204)
  assert.equal((await api.ask('PATCH', one, { url: 'https://last.example/' }, customer)).status, 200)
  assert.deepEqual(await stored(), { url: 'https://last.example/', headers: { 'X-Plain': 'a' } })
})

test('a client certificate needs https', async () => {
  const api = await opened()
  const plain = await api.ask('PATCH', one, { url: 'http://127.0.0.1:9/', clientCertificate: first })
  assert.equal(plain.status, 422)
  assert.match(JSON.stringify(plain.json), /needs an https URL/)
})

test('an expired certificate is accepted, because its receiver decides', async () => {
  const api = await opened()
  const answer = await api.ask('PATCH', one, { clientCertificate: certificateOf('expired') })
  assert.equal(answer.status, 200, JSON.stringify(answer.json))
  assert.match(JSON.stringify(answer.json), /2020-02-01/)
})

test('a portal token that manages endpoints sets credentials, and a read-only one does not', async () => {
  const api = await opened()
  const tokenOf = async (body: object) => {
    const { json: access } = await api.ask('POST', '/api/v1/auth/app-portal-access/acme', body)
    return (access as { token: string }).token
  }
  const auth = { kind: 'bearer', token: 'abc' }
  const manager = await tokenOf({})
  assert.equal((await api.ask('PATCH', one, { auth }, { authorization: `Bearer ${manager}` })).status, 200)
  const reader = await tokenOf({ readOnly: true })
  assert.equal((await api.ask('PATCH', one, { auth }, { authorization: `Bearer ${reader}` })).status, 403)
})

test('the query of a token URL, which may hold a key, is shown nowhere, and stays when the shown URL is sent back', async () => {
  const { ask, store } = await opened()
  const tokenUrl = 'https://idp.example/token?tenant=7&api_key=canary-query'
  const cut = 'https://idp.example/token?***'
  const stored = async () => {
    const app = (await store.findApplication('acme')) ?? assert.fail('there is no application')
    return (await store.findEndpoint(app.key, 'one'))?.auth as unknown as {
      tokenUrl: string
      secret: string
      scope: string
    }
  }
  const made = await ask('PATCH', one, { auth: { ...oauth, tokenUrl } })
  assert.equal(made.json.auth.tokenUrl, cut)
  // A form sends back what it was shown.
  const { clientSecret: _secret, ...shown } = { ...oauth, tokenUrl: cut, scope: 'other' }
  assert.equal((await ask('PATCH', one, { auth: shown })).status, 200)
  const { tokenUrl: kept, secret, scope } = await stored()
  assert.deepEqual([kept, secret, scope], [tokenUrl, oauth.clientSecret, 'other'])
  // Of another URL there is no query to keep, and without the secret none is kept either.
  const other = await ask('PATCH', one, { auth: { ...oauth, tokenUrl: 'https://other.example/token?***' } })
  assert.deepEqual([other.status, other.json.detail[0].loc], [422, ['body', 'auth', 'tokenUrl']])
  const created = await ask('POST', '/app/acme/endpoint', { url, auth: { ...oauth, tokenUrl: cut } })
  assert.equal(created.status, 422)
  const places = [one, '/app/acme/endpoint', '/api/v1/audit', `${one}/why`]
  const texts = await Promise.all(places.map(async (place) => (await ask('GET', place)).text))
  assert.doesNotMatch(texts.join('\n'), /canary-query|tenant=7/)
  assert.match(texts[2] ?? '', /\/token\?\*\*\*/)
})
