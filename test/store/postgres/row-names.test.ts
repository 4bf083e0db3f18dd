import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { firstKeyAt, keyTime } from '../../../src/domain/ids.ts'
import { readNames, writeNames } from '../../../src/store/postgres/row-names.ts'
import type { RowName } from '../../../src/store/store.ts'

const key = fc.integer({ min: Date.UTC(2024, 0), max: Date.UTC(2090, 0) }).map((ms) => firstKeyAt(ms) + 3)

test('the rows of a notification are read as they were written', () => {
  const place = fc.record({ message: fc.nat({ max: 4 }), endpoints: fc.array(fc.nat({ max: 6 }), { minLength: 1 }) })
  const keys = fc.uniqueArray(key, { minLength: 12, maxLength: 12 })
  fc.assert(
    fc.property(
      keys,
      fc.array(place, { minLength: 1 }),
      fc.integer({ min: -5000, max: 5000 }),
      (all, places, waitMs) => {
        const [messages, endpoints] = [all.slice(0, 5), all.slice(5)]
        const pairs = new Set(places.flatMap((each) => each.endpoints.map((endpoint) => `${each.message} ${endpoint}`)))
        const names = [...pairs].map((pair): RowName => {
          const [m = 0, e = 0] = pair.split(' ').map(Number)
          const message = messages[m] as number
          return { endpoint: endpoints[e] as number, message, dueAt: keyTime(message) + waitMs + m }
        })
        const inOrder = (list: RowName[]) => list.toSorted((a, b) => a.message - b.message || a.endpoint - b.endpoint)
        assert.deepEqual(inOrder(readNames(endpoints, writeNames(endpoints, names))), inOrder(names))
      },
    ),
  )
})

test('a message for all listed endpoints takes as many characters as for one', () => {
  const message = firstKeyAt(Date.UTC(2026, 0))
  const endpoints = Array.from({ length: 100 }, (_, i) => message + i)
  const text = writeNames(
    endpoints,
    endpoints.map((endpoint) => ({ endpoint, message, dueAt: keyTime(message) + 1 })),
  )
  assert.equal(text, `${message.toString(36)}.1`)
})
