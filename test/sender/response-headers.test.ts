import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { ResponseHeaders } from '../../src/domain/outcome.ts'
import { KeptHeaders } from '../../src/sender/answer.ts'
import type { SenderDeps } from '../../src/sender/sender.ts'
import { rawReceiver } from '../hostile/raw-receiver.ts'
import { send, targetAt, testSender } from './sending.ts'

async function headersOf(
  t: TestContext,
  head: string,
  context: Partial<SenderDeps> = {},
): Promise<ResponseHeaders | undefined> {
  const bytes = Buffer.from(`HTTP/1.1 200 OK\r\n${head}content-length: 2\r\n\r\nok`, 'latin1')
  const receiver = await rawReceiver(t, (socket) => void socket.write(bytes))
  const { outcome } = await send(testSender(t, context), targetAt(receiver.url))
  assert.equal(outcome.code, 'delivered')
  return outcome.responseHeaders === undefined ? undefined : JSON.parse(outcome.responseHeaders)
}

test('the headers of an answer are kept, several of one name in one value', async (t) => {
  const head = 'X-Request-Id: 7f3a\r\nVary: a\r\nvary: b\r\nX-Empty:\r\n'
  assert.deepEqual(await headersOf(t, head), {
    'x-request-id': '7f3a',
    vary: 'a, b',
    'x-empty': '',
    'content-length': '2',
  })
})

test('the value of a header that is secret by its name is not kept', async (t) => {
  const secret = 'a-very-secret-value'
  const names = ['Set-Cookie', 'SET-COOKIE2', 'Authorization', 'WWW-Authenticate', 'X-Api-Key', 'X-Auth-Token']
  const headers = await headersOf(t, names.map((name) => `${name}: ${secret}\r\n`).join(''))
  for (const name of names) assert.equal(headers?.[name.toLowerCase()], '(hidden)', name)
  assert.doesNotMatch(JSON.stringify(headers), new RegExp(secret))
})

test('a header that takes the name of a member of every object is a header like others', async (t) => {
  const headers = await headersOf(t, '__proto__: polluted\r\nconstructor: c\r\n')
  assert.equal(headers?.constructor, 'c')
  assert.equal(({} as Record<string, unknown>).polluted, undefined)
  assert.equal(Object.getPrototypeOf(headers), Object.prototype)
})

test('of 500 headers 64 are kept, and the rest is counted', async (t) => {
  const head = Array.from({ length: 500 }, (_, i) => `x-${i}: ${i}\r\n`).join('')
  const headers = (await headersOf(t, head)) ?? {}
  assert.equal(Object.keys(headers).length, 65)
  assert.equal(headers['…'], '437 more')
})

test('a long value is cut short, and headers beyond the limit in bytes are left out', async (t) => {
  const long = 'v'.repeat(3000)
  const headers = await headersOf(t, `x-long: ${long}\r\nx-second: ${long}\r\nx-third: 3\r\n`, {
    responseHeaderLimitBytes: 1200,
  })
  assert.equal(headers?.['x-long'], `${'v'.repeat(1024)}…`)
  assert.equal(headers?.['x-second'], undefined)
  assert.equal(headers?.['x-third'], '3')
  assert.equal(headers?.['…'], '1 more')
})

test('with a limit of 0 no header is kept', async (t) => {
  assert.equal(await headersOf(t, 'x-one: 1\r\n', { responseHeaderLimitBytes: 0 }), undefined)
})

test('remembered headers are those of the very same answer', () => {
  const kept = new KeptHeaders()
  const of = (headers: Readonly<Record<string, string | string[]>>) => JSON.parse(kept.of(headers, 4096) ?? 'null')
  const first = { date: 'Mon', server: 'a' }
  assert.equal(kept.of(first, 4096), kept.of({ ...first }, 4096))
  for (const headers of [
    { date: 'Tue', server: 'a' },
    { date: 'Tue' },
    { server: 'a', date: 'Tue' },
    { etag: 'Tue' },
    {},
  ]) {
    assert.deepEqual(of(headers), headers)
    assert.deepEqual(of({ ...headers }), headers)
  }
  assert.deepEqual(of({ vary: ['a', 'b'] }), { vary: 'a, b' })
  assert.deepEqual(of({ vary: ['a', 'c'] }), { vary: 'a, c' })
  assert.deepEqual(of({ cookie: 'secret' }), { cookie: '(hidden)' })
  assert.deepEqual(of({ long: 'x'.repeat(2000) }), { long: `${'x'.repeat(1024)}…` })
})
