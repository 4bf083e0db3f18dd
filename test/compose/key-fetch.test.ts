import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { exportJWK, SignJWT } from 'jose'
import { keyFetcher } from '../../src/compose/delivering.ts'
import { configOf } from '../../src/runtime/config.ts'
import { KeySets, keySetBytesLimit } from '../../src/sources/key-sets.ts'
import { arrivalOf, verifierOf } from '../sources/arrivals.ts'

const now = 1_760_000_000_000
/** Far above the time of a fetch on a busy machine, except in tests of a server that hangs. */
const patientMs = 60_000

type Serving = (response: ServerResponse, request: IncomingMessage) => void

const makeKey = (kid: string) => ({ kid, ...generateKeyPairSync('ec', { namedCurve: 'P-256' }) })
type Key = ReturnType<typeof makeKey>

async function keysText(keys: readonly Key[]): Promise<string> {
  return JSON.stringify({
    keys: await Promise.all(keys.map(async (key) => ({ ...(await exportJWK(key.publicKey)), kid: key.kid }))),
  })
}

/** A server of keys, and a source that verifies by them. */
async function begin(t: TestContext, timeoutMs = patientMs, networks: readonly string[] = ['127.0.0.0/8']) {
  const state = { serving: (response: ServerResponse) => void response.writeHead(500).end() } as { serving: Serving }
  let requests = 0
  const server = createServer((request, response) => {
    requests++
    state.serving(response, request)
  })
  // A request on a connection that was used before is sent once more after a hang-up.
  server.maxRequestsPerSocket = 1
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const fetcher = keyFetcher(configOf({ allowNetworks: networks }), timeoutMs)
  t.after(async () => {
    await fetcher.close()
    server.closeAllConnections()
    server.close()
  })
  const jwksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks.json`
  const verifier = verifierOf('jwt', { settings: { jwksUrl } }, new KeySets(fetcher.fetch))
  /** The judgement about a token at so many seconds: `event`, `unavailable` or the code of the refusal. */
  const judge = async ({ kid, privateKey }: Key, seconds: number) => {
    const at = now + seconds * 1000
    const token = new SignJWT({}).setProtectedHeader({ alg: 'ES256', kid }).setExpirationTime(at / 1000 + 60)
    const arrival = arrivalOf({ headers: { authorization: `Bearer ${await token.sign(privateKey)}` } })
    const judgement = await verifier.judge(arrival, at)
    return judgement.kind === 'refused' ? judgement.code : judgement.kind
  }
  const serve = (text: string, headers = {}) => {
    state.serving = (response) => void response.writeHead(200, { 'cache-control': 'max-age=600', ...headers }).end(text)
  }
  return { state, judge, serve, requests: () => requests }
}

test('keys that a provider rotates are fetched when they are needed, once for all requests', async (t) => {
  const { judge, serve, requests } = await begin(t)
  const [first, second, forged] = [makeKey('first'), makeKey('second'), makeKey('forged')]
  serve(await keysText([first]))
  assert.deepEqual(new Set(await Promise.all(Array.from({ length: 20 }, () => judge(first, 0)))), new Set(['event']))
  assert.equal(requests(), 1)
  // A forged token has the keys fetched. The provider rotates right afterwards, and its request is not refused for that.
  assert.equal(await judge(forged, 40), 'wrong_signature')
  serve(await keysText([first, second]))
  assert.equal(await judge(second, 41), 'unavailable')
  assert.deepEqual([await judge(first, 41), requests()], ['event', 2])
  assert.deepEqual([await judge(second, 71), requests()], ['event', 3])
  // A key that the provider withdraws no longer counts once the keys are stale.
  serve(await keysText([second]))
  assert.equal(await judge(first, 700), 'wrong_signature')
  assert.deepEqual([await judge(second, 700), requests()], ['event', 4])
})

test('whatever a failing server of keys answers, the keys of before serve, and the next fetch waits for the pause', async (t) => {
  const { state, judge, serve, requests } = await begin(t)
  const key = makeKey('one')
  serve(await keysText([key]))
  assert.equal(await judge(key, 0), 'event')
  const elsewhere = await keysText([makeKey('evil')])
  const answers: [string, Serving][] = [
    ['500', (response) => void response.writeHead(500).end('{"keys":[]}')],
    [
      'a redirect',
      (response, { url }) => {
        if (url === '/elsewhere') response.writeHead(200).end(elsewhere)
        else response.writeHead(302, { location: '/elsewhere' }).end()
      },
    ],
    ['a hang-up', (response) => void response.destroy()],
    [
      'a hang-up within the body',
      (response) => {
        response.writeHead(200, { 'content-length': 1000 }).write('{"keys":[')
        response.destroy()
      },
    ],
    ['no JSON', (response) => void response.writeHead(200).end('<html>')],
    ['too many bytes', (response) => void response.writeHead(200).end(' '.repeat(keySetBytesLimit + 1))],
  ]
  for (const [i, [name, serving]] of answers.entries()) {
    state.serving = serving
    const before = requests()
    const at = 1000 * (i + 1)
    assert.equal(await judge(key, at), 'event', name)
    assert.equal(await judge(makeKey('unknown'), at + 29), 'unavailable', name)
    assert.equal(requests() - before, 1, `${name}: one request, and no other one before the pause is over`)
  }
})

test('an endless set of keys is read up to the limit, and a server that hangs is waited for once', async (t) => {
  const { state, judge, serve, requests } = await begin(t, 1000)
  const key = makeKey('one')
  serve(await keysText([key]))
  // A busy machine may need longer than the time limit for the first fetch.
  for (let at = -3600; (await judge(key, at)) !== 'event'; at += 30);
  let sent = 0
  const ended = Promise.withResolvers<void>()
  state.serving = (response) => {
    const chunk = Buffer.alloc(16_384, ' ')
    const more = () => {
      while (!response.destroyed) {
        sent += chunk.length
        if (!response.write(chunk)) return void response.once('drain', more)
      }
    }
    response.once('close', ended.resolve)
    more()
  }
  assert.equal(await judge(key, 1000), 'event')
  await ended.promise
  // The rest is in the buffers of the two sockets.
  assert.ok(sent < 16 * 2 ** 20, `${sent} bytes were sent`)

  // The server hangs: after its head, and within its body.
  let hanging = 0
  state.serving = (response) => {
    hanging++
    if (hanging === 1) response.writeHead(200).write('{"keys":[')
  }
  const before = requests()
  const [waited] = await Promise.all([
    judge(makeKey('unknown'), 2000),
    ...Array.from({ length: 50 }, () => judge(key, 2000)),
  ])
  assert.equal(waited, 'unavailable')
  assert.equal(requests() - before, 1, 'one fetch for all requests')
  // The second fetch hangs, too. A request with a known key does not wait for it.
  const unknown = judge(makeKey('unknown'), 2040)
  assert.equal(await Promise.race([judge(key, 2040), unknown.then(() => 'waited')]), 'event')
  assert.equal(await unknown, 'unavailable')
  assert.equal(requests() - before, 2)
  serve(await keysText([makeKey('two'), key]))
  // The first request asks for the keys in the background; the keys are there for the next.
  assert.equal(await judge(key, 2080), 'event')
})

test('keys at a private address are not fetched unless it is allowed', async (t) => {
  const { judge, serve, requests } = await begin(t, patientMs, [])
  const key = makeKey('one')
  serve(await keysText([key]))
  assert.deepEqual([await judge(key, 0), requests()], ['unavailable', 0])
})
