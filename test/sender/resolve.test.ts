import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConnectFailure } from '../../src/sender/classify.ts'
import { cached, type Resolved } from '../../src/sender/resolve.ts'
import { VirtualClock } from '../virtual-clock.ts'

function counting(answer: (name: string) => Promise<readonly Resolved[]>) {
  const clock = new VirtualClock()
  const asked: string[] = []
  const resolve = cached((name) => {
    asked.push(name)
    return answer(name)
  }, clock)
  return { clock, asked, resolve }
}

const found = (ttlSeconds: number) => async () => [{ address: '192.0.2.1', family: 4, ttlSeconds }]

for (const [ttlSeconds, keptMs] of [
  [0, 1000],
  [5, 5000],
  [86_400, 30_000],
] as const) {
  test(`an answer good for ${ttlSeconds} s is kept for ${keptMs} ms`, async () => {
    const { clock, asked, resolve } = counting(found(ttlSeconds))
    await resolve('a.test')
    await clock.advance(keptMs - 1)
    await resolve('a.test')
    assert.equal(asked.length, 1)
    await clock.advance(1)
    await resolve('a.test')
    assert.equal(asked.length, 2)
  })
}

test('a failure is kept for a second', async () => {
  const { clock, asked, resolve } = counting(async () => {
    throw new ConnectFailure('dns_failed', 'no')
  })
  await assert.rejects(resolve('a.test'))
  await assert.rejects(resolve('a.test'))
  assert.equal(asked.length, 1)
  await clock.advance(1000)
  await assert.rejects(resolve('a.test'))
  assert.equal(asked.length, 2)
})

test('questions for one name at the same time are one question', async () => {
  const late = Promise.withResolvers<readonly Resolved[]>()
  const { asked, resolve } = counting(() => late.promise)
  const all = [resolve('a.test'), resolve('a.test'), resolve('b.test')]
  late.resolve([{ address: '192.0.2.1', family: 4, ttlSeconds: 1 }])
  await Promise.all(all)

  assert.deepEqual(asked, ['a.test', 'b.test'])
})

test('no more than ten thousand names are remembered, the oldest going first', async () => {
  const { asked, resolve } = counting(found(30))
  for (let i = 0; i <= 10_000; i++) await resolve(`n${i}.test`)
  await resolve('n10000.test')
  assert.equal(asked.length, 10_001)
  await resolve('n0.test')
  assert.equal(asked.length, 10_002)
})
