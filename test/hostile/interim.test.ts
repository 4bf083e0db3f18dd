import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import fc from 'fast-check'
import type { OAuth2 } from '../../src/features/credentials/rules.ts'
import { InterimAnswers } from '../../src/sender/interim.ts'
import { assertAtDeadline, exampleMessage, send, targetAt, testSender } from '../sender/sending.ts'
import { answer, flood, rawReceiver } from './raw-receiver.ts'

/** RFC 9110, 15.2: a client must take interim answers before the final one, even if it did not ask for them. */
const goOn = 'HTTP/1.1 100 Continue\r\n\r\n'
const ok = answer('200 OK', 'taken')

const fixture = (name: string) => readFileSync(new URL(`../sender/fixtures/${name}.pem`, import.meta.url), 'utf8')

/** Writes texts as packets of their own: each once the one before has left. */
function packets(socket: Socket, texts: readonly string[]): void {
  const [first, ...rest] = texts
  if (first !== undefined) socket.write(first, 'latin1', () => setImmediate(() => packets(socket, rest)))
}

const deliveries: readonly (readonly [says: string, packets: readonly string[]])[] = [
  ['a 100 and its answer in one packet', [goOn + ok]],
  ['a 100 and its answer in two packets', [goOn, ok]],
  ['a 100 cut into single bytes', [...goOn, ok]],
  ['eight 100s in one packet', [goOn.repeat(8) + ok]],
  ['eight 100s in a packet each', [...Array<string>(8).fill(goOn), ok]],
  ['a 100 with headers', ['HTTP/1.1 100 Continue\r\nserver: x\r\nx-status: HTTP/1.1 100 Continue\r\n\r\n', ok]],
  ['a 100 without a reason', ['HTTP/1.1 100 \r\n\r\n', ok]],
  ['a 103, a 100 and a 102', ['HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n', goOn, 'HTTP/1.1 102 Wait\r\n\r\n', ok]],
  ['an empty line before a 100', ['\r\n', goOn, '\r\n', ok]],
]

for (const [says, texts] of deliveries) {
  test(`a receiver that says ${says} has taken the delivery, and its connection is used again`, async (t) => {
    const receiver = await rawReceiver(t, (socket) => packets(socket, texts))
    const sender = testSender(t)
    for (const nth of [1, 2]) {
      const { outcome, leaves } = await send(sender, targetAt(receiver.url))
      assert.equal(outcome.code, 'delivered', outcome.error)
      assert.equal(outcome.status, 200)
      assert.equal(Buffer.from(outcome.response ?? []).toString(), 'taken')
      assert.equal(leaves, 1)
      assert.equal(receiver.requests.length, nth)
    }
    assert.equal(receiver.connections, 1)
  })
}

test('a 100 through TLS is taken', async (t) => {
  const tls = { key: fixture('valid'), cert: fixture('valid') }
  const receiver = await rawReceiver(t, (socket) => packets(socket, [goOn, goOn + ok]), { tls })
  const sender = testSender(t, { extraCa: [fixture('authority')] })
  const { outcome } = await send(sender, targetAt(`https://localhost:${receiver.port}/hook`))
  assert.equal(outcome.code, 'delivered', outcome.error)
})

test('a refusal behind a 100 is that refusal', async (t) => {
  const receiver = await rawReceiver(t, (socket) => packets(socket, [goOn, answer('503 Busy', '', ['retry-after: 7'])]))
  const { outcome } = await send(testSender(t), targetAt(receiver.url))
  assert.equal(outcome.code, 'refused')
  assert.equal(outcome.status, 503)
  assert.equal(outcome.retryAfterMs, 7000)
})

test('the text of a 100 within the final answer stays as it is', async (t) => {
  const final = answer('200 OK', `${goOn}${goOn}`, ['x-said: HTTP/1.1 100 Continue'])
  const receiver = await rawReceiver(t, (socket) => packets(socket, [goOn, final.slice(0, 40), final.slice(40)]))
  const { outcome } = await send(testSender(t), targetAt(receiver.url))
  assert.equal(outcome.code, 'delivered')
  assert.equal(Buffer.from(outcome.response ?? []).toString(), `${goOn}${goOn}`)
  assert.match(outcome.responseHeaders ?? '', /"x-said":"HTTP\/1\.1 100 Continue"/)
})

test('a ninth 100, endless 100s and a 100 without an end are invalid_http, and cost bounded bytes', async (t) => {
  const behaviours = [
    (socket: Socket) => void socket.write(goOn.repeat(9) + ok),
    (socket: Socket) => flood(socket, goOn.repeat(1000)),
    (socket: Socket) => {
      socket.write('HTTP/1.1 100 Continue\r\n')
      flood(socket, 'x: y\r\n'.repeat(10_000))
    },
    (socket: Socket) => {
      socket.write('HTTP/1.1 100 ')
      flood(socket, 'x'.repeat(65_536))
    },
  ]
  for (const behave of behaviours) {
    const receiver = await rawReceiver(t, behave)
    const { outcome } = await send(testSender(t), targetAt(receiver.url))
    assert.equal(outcome.code, 'invalid_http', outcome.error)
    assert.equal(receiver.requests.length, 1)
  }
})

test('a receiver that says 100 and nothing more is a timeout', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(goOn))
  const { outcome } = await send(testSender(t), targetAt(receiver.url, { timeoutMs: 500 }))
  assert.equal(outcome.code, 'timeout')
  assertAtDeadline(outcome, 500)
})

test('a receiver that says 100 and hangs up has begun to answer, so the request is not sent again at once', async (t) => {
  const receiver = await rawReceiver(t, (socket, { nth }) => {
    if (nth === 1) packets(socket, [ok])
    else socket.end(goOn)
  })
  const sender = testSender(t)
  assert.equal((await send(sender, targetAt(receiver.url))).outcome.code, 'delivered')
  const { outcome } = await send(sender, targetAt(receiver.url))
  assert.equal(outcome.code, 'reset')
  assert.match(outcome.error ?? '', /in the middle of its answer/)
  assert.equal(receiver.requests.length, 2)
})

test('a token endpoint that says 100 gives its token', async (t) => {
  const body = JSON.stringify({ access_token: 'secret-token', token_type: 'Bearer', expires_in: 3600 })
  const grant = answer('200 OK', body, ['content-type: application/json'])
  const tokens = await rawReceiver(t, (socket) => packets(socket, [goOn, goOn + grant]))
  const receiver = await rawReceiver(t, (socket) => packets(socket, [goOn, ok]))
  const auth: OAuth2 = {
    ...{ kind: 'oauth2', tokenUrl: tokens.url, clientId: 'c', method: 'client_secret_basic', secret: 's' },
    ...{ keyId: null, scope: null, audience: null },
  }
  const { outcome } = await send(testSender(t), targetAt(receiver.url, { auth }), exampleMessage)
  assert.equal(outcome.code, 'delivered', outcome.error)
  assert.match(receiver.requests[0]?.head ?? '', /^authorization: Bearer secret-token$/im)
})

test('however an answer is cut into packets, each 100 before its final status is a 102, and all else is unchanged', () => {
  const interim = fc.constantFrom(
    goOn,
    'HTTP/1.1 100 C\r\na: 1\r\nb: \r 2\r\n\r\n',
    'HTTP/1.1 103 E\r\nl: x\r\n\r\n',
    '\r\n',
  )
  const final = fc.constantFrom(ok, answer('201 Made', `${goOn}\r\n\r\n${goOn}`), 'SSH-2.0\r\n')
  const cuts = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 30 })
  fc.assert(
    fc.property(fc.array(interim), final, cuts, (interims, last, sizes) => {
      const answers = new InterimAnswers()
      const twice = [1, 2].map(() => {
        const bytes = Buffer.from(interims.join('') + last)
        answers.expect()
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const size = sizes[i % sizes.length] as number
          answers.pass(bytes.subarray(at, at + size))
          at += size
        }
        return bytes.toString()
      })
      const expected = interims.map((each) => each.replace(/^HTTP\/1\.1 100/, 'HTTP/1.1 102')).join('') + last
      assert.deepEqual(twice, [expected, expected])
    }),
  )
})
