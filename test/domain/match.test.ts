import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isPattern, Matcher, patternsFor, type Subscription } from '../../src/domain/match.ts'

function subscription(endpoint: number, eventTypes: string[] | null, channels: string[] | null = null): Subscription {
  return { endpoint, eventTypes, channels }
}

test('an event type is matched by itself, by each of its beginnings with a star, and by the star', () => {
  assert.deepEqual(
    new Set(patternsFor('video.trending.eu')),
    new Set(['*', 'video.*', 'video.trending.*', 'video.trending.eu']),
  )
  assert.deepEqual(new Set(patternsFor('video')), new Set(['*', 'video']))
})

for (const [pattern, eventType, matches] of [
  ['*', 'video', true],
  ['*', 'video.trending', true],
  ['video', 'video', true],
  ['video', 'video.trending', false],
  ['video.*', 'video', false],
  ['video.*', 'video.trending', true],
  ['video.*', 'video.trending.eu', true],
  ['video.*', 'videos.trending', false],
  ['video.trending', 'video.trending', true],
  ['video.trending', 'video.trending.eu', false],
  ['video.trending.*', 'video.trendings.eu', false],
  ['Video', 'video', false],
] as const) {
  test(`${pattern} ${matches ? 'matches' : 'does not match'} ${eventType}`, () => {
    assert.deepEqual(new Matcher([subscription(1, [pattern])]).match(eventType, null), matches ? [1] : [])
  })
}

test('a pattern is a name, a star, or a name followed by a dot and a star', () => {
  for (const text of ['*', 'video', 'video.*', 'video.trending', 'a.b.c.*', 'A-1_x.y']) assert.ok(isPattern(text), text)
  const wrong = [
    '',
    '.',
    '.*',
    '**',
    '*.video',
    'video.',
    'video*',
    'video.*.eu',
    '.video',
    'a..b',
    'a b',
    'é',
    'video\n',
  ]
  for (const text of wrong) assert.ok(!isPattern(text), JSON.stringify(text))
})

test('an endpoint without event types gets every type, one with an empty list gets none', () => {
  const matcher = new Matcher([subscription(1, null), subscription(2, [])])
  assert.deepEqual(matcher.match('video.trending', null), [1])
})

test('an endpoint that matches in several ways is found once', () => {
  const matcher = new Matcher([subscription(1, ['*', 'a.*', 'a.b', 'a.b'])])
  assert.deepEqual(matcher.match('a.b', null), [1])
})

test('an endpoint with channels gets only messages sent on one of them', () => {
  const matcher = new Matcher([subscription(1, null), subscription(2, null, ['x', 'y']), subscription(3, null, [])])
  assert.deepEqual(matcher.match('a', null), [1])
  assert.deepEqual(matcher.match('a', []), [1])
  assert.deepEqual(matcher.match('a', ['z']), [1])
  assert.deepEqual(matcher.match('a', ['z', 'y']), [1, 2])
})

/** Says the same by the meaning of a glob instead of by equality. */
function naiveMatch(list: readonly Subscription[], eventType: string, channels: readonly string[] | null): number[] {
  const globs = (pattern: string) =>
    pattern === '*' || pattern === eventType || (pattern.endsWith('.*') && eventType.startsWith(pattern.slice(0, -1)))
  return list
    .filter(({ eventTypes }) => eventTypes === null || eventTypes.some(globs))
    .filter(({ channels: wanted }) => wanted === null || wanted.some((channel) => channels?.includes(channel)))
    .map(({ endpoint }) => endpoint)
}

test('matching by equality finds the same patterns as globbing by prefix', () => {
  const name = fc
    .array(fc.constantFrom('a', 'b', 'ab', 'a-b'), { minLength: 1, maxLength: 4 })
    .map((parts) => parts.join('.'))
  const pattern = fc.oneof(
    fc.constant('*'),
    name,
    name.map((text) => `${text}.*`),
  )
  const orNull = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: null })
  const channels = orNull(fc.subarray(['x', 'y', 'z']))
  const subscriptions = fc
    .array(fc.record({ eventTypes: orNull(fc.array(pattern, { maxLength: 4 })), channels }), { maxLength: 8 })
    .map((list) => list.map((rest, endpoint) => ({ endpoint, ...rest })))
  fc.assert(
    fc.property(subscriptions, name, channels, (list, eventType, sentOn) => {
      const found = new Matcher(list).match(eventType, sentOn)
      assert.deepEqual(found.toSorted(), naiveMatch(list, eventType, sentOn))
    }),
    { numRuns: 500 },
  )
})
