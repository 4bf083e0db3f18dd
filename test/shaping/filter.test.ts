import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { filterLimit } from '../../src/features/endpoints/noun.ts'
import { checkFilter, type Filterable, FilterError, readFilter } from '../../src/shaping/filter.ts'

const payload = {
  n: 5,
  f: 1.5,
  s: 'abc',
  yes: true,
  none: null,
  list: [1, 2, { tags: ['x'] }],
  items: [
    { sku: 'a', price: 3 },
    { sku: 'b', price: 30 },
  ],
}
const message: Filterable = { payload, eventType: 'video.trending', eventId: 'e1', channels: ['eu'], tags: null }

describe('a filter', () => {
  const truths: [string, boolean][] = [
    ['payload.n > 3', true],
    ['payload.n == 5 && payload.f < 2', true],
    ['payload.n in [1, 5]', true],
    ['payload.s.contains("b") && payload.s.startsWith("a")', true],
    ['payload.yes', true],
    ['!payload.yes', false],
    ['payload.none == null', true],
    ['has(payload.missing)', false],
    ['size(payload.list) == 3 && payload.list[0] == 1', true],
    ['payload.items.exists(i, i.price > 20)', true],
    ['payload.items.all(i, i.price > 20)', false],
    ['payload.items.filter(i, i.price > 20).exists_one(i, i.sku == "b")', true],
    ['payload.list.exists(x, has(x.tags) && x.tags.exists(t, t == "x"))', true],
    ['"eu" in channels', true],
    ['"eu" in tags', false],
    ['eventType == "video.trending" && eventId == "e1"', true],
    ['payload.n + 1.0 == 6.0', true],
  ]
  for (const [text, expected] of truths) {
    test(text, () => assert.equal(checkFilter(text).passes(message), expected))
  }

  test('that fails is true of nothing, and says why', () => {
    const failures: [string, RegExp][] = [
      ['payload.missing == 1', /No such key: missing/],
      ['payload.n > "a"', /no such overload/],
      ['payload.s.exists(c, c == "a")', /./],
      ['payload.n', /neither true nor false/],
    ]
    for (const [text, reason] of failures) {
      const filter = checkFilter(text)
      assert.equal(filter.passes(message), false, text)
      assert.match(filter.failure(message) ?? '', reason)
    }
    assert.equal(checkFilter('payload.missing == 1 || payload.n == 5').passes(message), true)
    assert.equal(checkFilter('payload == null').passes({ ...message, payload: null }), true)
  })

  test("sees only the payload's own fields", () => {
    for (const name of ['constructor', '__proto__', 'toString', 'length']) {
      assert.equal(checkFilter(`has(payload.${name})`).passes(message), false, name)
    }
  })

  const refused: [string, RegExp][] = [
    ['', /unexpected token: EOF \(line 1, column 1\)/],
    ['payload.n >\n  ', /line 2, column 3/],
    ['unknown == 1', /unknown variable: unknown \(line 1, column 1\)/],
    ['"text"', /is a string, not a condition/],
    ['payload.s.matches("(a+)+$")', /the function matches is not available/],
    ['payload.s.contains(payload.s)', /contains takes a text in quotes/],
    ['payload.s + payload.s == ""', /one side of \+ must be a number/],
    ['payload.list.exists(x, payload.list.exists(y, x == y))', /only x may be used, not payload/],
    ['payload.items.exists(i, i.list.exists(j, i.price > j))', /only j may be used, not i/],
    ['payload.list.map(x, payload).exists(p, p.n == 5)', /runs through a list of the message/],
    ['[1, 2].exists(x, x == 1)', /runs through a list of the message/],
    ['payload.list.exists(payload, true)', /already means something else/],
    ['payload.list.exists(x)', /takes a name and a condition/],
    ['cel.bind(x, payload, x == x)', /bind is not available/],
    ['timestamp("2026-01-01T00:00:00Z") == payload.n', /timestamp is not available/],
    [`${'('.repeat(100)}true${')'.repeat(100)}`, /maxDepth/],
    [`${'!'.repeat(1000)}true`, /maxAstNodes/],
    [`payload.n in [${Array.from({ length: 500 }, () => 1).join(',')}]`, /max/],
    ['x'.repeat(filterLimit + 1), /longer than 2000 characters/],
  ]
  for (const [text, reason] of refused) {
    test(`is not ${text.slice(0, 60)}`, () => {
      assert.throws(
        () => checkFilter(text),
        (error) => error instanceof FilterError && reason.test(error.message),
      )
    })
  }

  test('that this version would refuse is true of nothing', () => {
    assert.equal(readFilter('payload.s.matches("a")').passes(message), false)
  })

  test('does no more with a message than can be done at once', () => {
    const large = { ...message, payload: { list: Array.from({ length: 1_000_000 }, (_, i) => i) } }
    const heavy = checkFilter('payload.list.exists(x, x == -1)')
    assert.equal(heavy.failure(large), 'the payload is too large for this filter')
    assert.equal(checkFilter('payload.list[999999] == 999999').passes(large), true)
    let deep: unknown = 1
    for (let i = 0; i < 100_000; i++) deep = [deep]
    assert.equal(checkFilter('payload == payload').passes({ ...message, payload: deep }), false)
  })
})
