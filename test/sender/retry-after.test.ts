import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readRetryAfter } from '../../src/sender/answer.ts'
import { answer, rawReceiver } from '../hostile/raw-receiver.ts'
import { send, targetAt, testSender } from './sending.ts'

const now = Date.UTC(1994, 10, 6, 8, 49, 37)
const capMs = 86_400_000

const cases: readonly (readonly [string | string[] | undefined, number | undefined])[] = [
  [undefined, undefined],
  ['0', 0],
  ['1', 1000],
  [' 120 ', 120_000],
  ['1.5', 1500],
  ['-5', 0],
  ['-0', 0],
  ['86400', capMs],
  ['1000000000000', capMs],
  ['99999999999999999999', capMs],
  ['9'.repeat(400), undefined],
  ['Sun, 06 Nov 1994 08:50:07 GMT', 30_000],
  ['Sunday, 06-Nov-94 08:50:07 GMT', 30_000],
  ['Sun Nov  6 08:50:07 1994', 30_000],
  ['Sun, 06 Nov 1994 08:49:37 GMT', 0],
  ['Sun, 06 Nov 1994 08:00:00 GMT', 0],
  ['Fri, 31 Dec 9999 23:59:59 GMT', capMs],
  ['Sun, 99 Nov 1994 08:50:07 GMT', undefined],
  ['1994-11-06T08:50:07Z', undefined],
  ['tomorrow', undefined],
  ['', undefined],
  ['NaN', undefined],
  ['Infinity', undefined],
  ['1e12', undefined],
  ['0x10', undefined],
  ['1 2', undefined],
  ['5, 10', undefined],
  [['5', '10'], 10_000],
  [['junk', '3'], 3000],
  [['junk', 'more'], undefined],
]

for (const [header, waitMs] of cases) {
  test(`Retry-After ${JSON.stringify(header)?.slice(0, 60)} asks for ${waitMs} ms`, () => {
    assert.equal(readRetryAfter(header, now, capMs), waitMs)
  })
}

test('the wait a receiver asks for comes out of the attempt, within the cap of the sender', async (t) => {
  const receiver = await rawReceiver(
    t,
    (socket) => void socket.write(answer('429 Slow down', '', ['Retry-After: 3600'])),
  )
  const hour = await send(testSender(t), targetAt(receiver.url))
  const capped = await send(testSender(t, { retryAfterCapMs: 60_000 }), targetAt(receiver.url))

  assert.equal(hour.outcome.retryAfterMs, 3_600_000)
  assert.equal(capped.outcome.retryAfterMs, 60_000)
})
