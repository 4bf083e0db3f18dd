import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endpointsAtOnce, firstStep, type MessageWeight, stepsOf } from '../../src/features/erasure/rules.ts'

const light = { endpoints: 1, attempts: 1, bodyBytes: 100, answerBytes: 100 }

function weigh(message: number, change: Partial<MessageWeight> = {}): MessageWeight {
  return { message, ...light, ...change }
}

test('a step takes as many messages as its rows and bytes allow, and one in any case', () => {
  const keys = (count: number) => Array.from({ length: count }, (_, i) => i + 1)
  const stepOf = (count: number, change: Partial<MessageWeight>) =>
    firstStep(
      keys(count),
      keys(count).map((key) => weigh(key, change)),
    ).length
  assert.equal(stepOf(1000, {}), 50)
  assert.equal(stepOf(1000, { endpoints: 10 }), 12)
  assert.equal(stepOf(1000, { attempts: 50 }), 5)
  assert.equal(stepOf(1000, { bodyBytes: 2 ** 17 }), 3)
  assert.equal(stepOf(1000, { answerBytes: 2 ** 30 }), 1)
  assert.equal(stepOf(1000, { endpoints: 100_000 }), 1)
  assert.equal(firstStep(keys(1000), []).length, 50, 'messages that are gone weigh nothing')
  assert.deepEqual(firstStep([], []), [])
  const steps = stepsOf(
    keys(7),
    keys(7).map((key) => weigh(key, { endpoints: 60 })),
  )
  assert.deepEqual(steps, [[1, 2], [3, 4], [5, 6], [7]])
})

test('a message is cut into parts by its endpoints, its attempts and their answers', () => {
  assert.equal(endpointsAtOnce(weigh(1)), 1)
  assert.equal(endpointsAtOnce(weigh(1, { endpoints: 125 })), 125)
  assert.equal(endpointsAtOnce(weigh(1, { endpoints: 1000 })), 125)
  assert.equal(endpointsAtOnce(weigh(1, { endpoints: 1000, attempts: 10_000 })), 25)
  assert.equal(endpointsAtOnce(weigh(1, { endpoints: 100, answerBytes: 2 ** 21 })), 25)
  assert.equal(endpointsAtOnce(weigh(1, { endpoints: 1, attempts: 1_000_000 })), 1)
})
