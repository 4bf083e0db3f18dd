import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import type { Shape } from '../../src/domain/flow.ts'
import { allAtOnce } from '../../src/domain/turns.ts'
import type { Endpoint } from '../../src/features/endpoints/rules.ts'
import { Outline } from '../../src/json/outline.ts'
import { bodyShaper, boundedShaper, mostFormBytes, pseudonymizer, shaper } from '../../src/shaping/shape.ts'

const outlineOf = (body: Buffer) => allAtOnce(Outline.of(body))
const none: Shape = { keep: null, drop: [], rename: {}, pseudonymize: [] }
const regionSecret = 'a secret that only we know'

function shaped(text: string, shape: Partial<Shape>, endpoint = 'ep_1', secret = regionSecret): string {
  const json = outlineOf(Buffer.from(text))
  assert(json, 'not JSON')
  const pseudonymize = pseudonymizer(secret, endpoint, shape.pseudonymForm)
  return allAtOnce(shaper({ ...none, ...shape }, pseudonymize)(json)).toString()
}

const plain = (value: unknown) => JSON.parse(JSON.stringify(value))

const published = ' { "a" : 1.0 , "b":{"c": 12345678901234567890,"d":[1, {"e":null,"f":"x"} ,3]},\n "g~/": "\\u0068" } '

const cases: [string, Partial<Shape>, string][] = [
  ['nothing', {}, published],
  [
    'the first dropped',
    { drop: ['/a'] },
    ' { "b":{"c": 12345678901234567890,"d":[1, {"e":null,"f":"x"} ,3]},\n "g~/": "\\u0068" } ',
  ],
  ['one between dropped', { drop: ['/b'] }, ' { "a" : 1.0,\n "g~/": "\\u0068" } '],
  [
    'the last dropped, by a name that must be escaped',
    { drop: ['/g~0~1'] },
    ' { "a" : 1.0 , "b":{"c": 12345678901234567890,"d":[1, {"e":null,"f":"x"} ,3]} } ',
  ],
  ['all dropped', { drop: ['/a', '/b', '/g~0~1'] }, ' {  } '],
  ['what is not there dropped', { drop: ['/z', '/a/b', '/b/d/9', '/b/d/x'] }, published],
  ['one kept', { keep: ['/b/c'] }, ' { "b":{"c": 12345678901234567890} } '],
  ['kept and dropped again', { keep: ['/b'], drop: ['/b/d'] }, ' { "b":{"c": 12345678901234567890} } '],
  ['a field of every element kept', { keep: ['/b/d/*/f'] }, ' { "b":{"d":[{"f":"x"}]} } '],
  ['one element kept', { keep: ['/b/d/0'] }, ' { "b":{"d":[1]} } '],
  ['an element and a field of every element', { keep: ['/b/d/1'], drop: ['/b/d/*/e'] }, ' { "b":{"d":[{"f":"x"}]} } '],
  ['nothing that is there kept', { keep: ['/z'] }, ' {  } '],
  [
    'two names exchanged',
    { keep: ['/a', '/g~0~1'], rename: { '/a': 'g~/', '/g~0~1': 'a' } },
    ' { "g~/" : 1.0,\n "a": "\\u0068" } ',
  ],
  ['a name taken from another', { rename: { '/a': 'b' }, drop: ['/g~0~1'] }, ' { "b" : 1.0 } '],
  ['a new name that must be escaped', { keep: ['/a'], rename: { '/a': 'say "a"' } }, ' { "say \\"a\\"" : 1.0 } '],
  [
    'elements cannot be renamed',
    { keep: ['/b/d'], rename: { '/b/d/*': 'x', '/b/d/0': 'y' } },
    ' { "b":{"d":[1, {"e":null,"f":"x"} ,3]} } ',
  ],
]

describe('a shape', () => {
  for (const [name, shape, expected] of cases) test(name, () => assert.equal(shaped(published, shape), expected))

  test('leaves nothing of a payload without parts when only parts are asked for', () => {
    for (const text of ['"secret"', ' 5 ', 'true', 'null']) assert.equal(shaped(text, { keep: ['/a'] }).trim(), 'null')
    assert.equal(shaped('"all of it"', { drop: ['/a'] }), '"all of it"')
    assert.equal(shaped('[]', { keep: ['/0'] }), '[]')
  })

  test('finds a name however it is written, and every one of that name', () => {
    assert.equal(shaped('{"\\u0061":1,"b":2,"a":3}', { drop: ['/a'] }), '{"b":2}')
    assert.equal(shaped('{"*":1,"b":[{"*":2},3]}', { drop: ['/*'] }), '{"b":[{"*":2},3]}')
    assert.equal(shaped('{"b":[{"*":2},3]}', { drop: ['/b/*'] }), '{"b":[]}')
    assert.equal(shaped('{"":1,"b":2}', { drop: ['/'] }), '{"b":2}')
  })

  test('applies several rules to one field', () => {
    const text = '{"u":[{"id":"x","n":1},{"id":"y","n":2}],"v":1}'
    const shape = { keep: ['/u'], drop: ['/u/1/n'], rename: { '/u/*/id': 'who' }, pseudonymize: ['/u/*/id'] }
    const [x, y] = [shaped('["x"]', { pseudonymize: ['/0'] }), shaped('["y"]', { pseudonymize: ['/0'] })]
    assert.equal(shaped(text, shape), `{"u":[{"who":${x.slice(1, -1)},"n":1},{"who":${y.slice(1, -1)}}]}`)
  })

  test('with a bound makes no pseudonym beyond it', () => {
    const json = outlineOf(Buffer.from(`[${Array.from({ length: 10_000 }, () => 1)}]`))
    assert(json, 'not JSON')
    let made = 0
    const pseudonymize = () => {
      made++
      return 'x'.repeat(48)
    }
    const apply = boundedShaper({ ...none, pseudonymize: ['/*'] }, pseudonymize)
    assert.equal(allAtOnce(apply(json, 51_000)), undefined)
    assert.ok(made > 950 && made < 1500, `${made}`)
    const whole = 10_000 * 51 + 1
    assert.equal(allAtOnce(apply(json, whole - 1)), undefined)
    assert.equal(allAtOnce(apply(json, whole))?.length, whole)
  })

  test('of a body that is about to be sent makes no form that is larger than a form may be', () => {
    const sent = (shape: Partial<Shape>, body: string) => {
      const given = { id: 'ep_1', flow: { shape: { ...none, ...shape } }, regionSecret } as Endpoint
      const apply = bodyShaper(given)
      assert(apply)
      return allAtOnce(apply(Buffer.from(body)))
    }
    const members = (count: number) => `[${Array.from({ length: count }, () => '{"a":1}')}]`
    const rename = { '/*/a': 'a'.repeat(90) }
    const larger = sent({ rename }, members(40_000))?.byteLength ?? 0
    assert.ok(larger > 3_000_000, `${larger}`)
    for (const shape of [{ rename }, { pseudonymize: ['/*/a'] }]) {
      assert.equal(sent(shape, members(100_000)), undefined)
    }
    // Of a large payload, twice its bytes.
    const large = `[{"a":1},"${'x'.repeat(5_000_000)}"]`
    assert.equal(mostFormBytes(large.length), 2 * large.length)
    assert.ok((sent({ rename }, large)?.byteLength ?? 0) > 5_000_000)
  })

  test('takes no time to speak of for many pointers through every element', () => {
    const deep = `/${Array.from({ length: 31 }, () => '*').join('/')}`
    const pointers = Array.from({ length: 32 }, (_, i) => deep.replaceAll('*', () => '*').replace('*', String(i)))
    const mixed = Array.from({ length: 32 }, (_, i) =>
      deep
        .split('/')
        .with(1 + (i % 31), '0')
        .join('/'),
    )
    const text = `${'['.repeat(31)}1${']'.repeat(31)}`
    assert.equal(shaped(text, { drop: [...pointers, ...mixed] }), `${'['.repeat(31)}${']'.repeat(31)}`)
    const nested = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    assert.equal(shaped(nested, { drop: ['/0/1'] }), nested)
  })

  test('leaves all other fields as they were', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.string(), fc.nat(3), (object, name, indent) => {
        const text = JSON.stringify(object, null, indent)
        const pointer = `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
        const { [name]: gone, ...rest } = object
        const own = Object.hasOwn(object, name)
        assert.deepEqual(JSON.parse(shaped(text, { drop: [pointer] })), plain(own ? rest : object))
        assert.deepEqual(JSON.parse(shaped(text, { keep: [pointer] })), plain(own ? { [name]: gone } : {}))
        if (!own) assert.equal(shaped(text, { drop: [pointer] }), text)
      }),
    )
  })
})

describe('a body that is not JSON', () => {
  test('is recognised', () => {
    const bad = ['', ' ', '{', '{"a":1,}', '\ufeff{}', "{'a':1}", '{} {}', 'NaN', '01']
    for (const text of bad) assert.equal(outlineOf(Buffer.from(text)), undefined, text)
    assert.equal(outlineOf(Buffer.from([0x22, 0xff, 0x22])), undefined)
  })
})

describe('a pseudonym', () => {
  const one = (value: string, endpoint?: string, secret?: string) =>
    JSON.parse(shaped(`{"v":${value}}`, { pseudonymize: ['/v'] }, endpoint, secret)).v

  test('is the same for the same value, endpoint and region, and another for any other', () => {
    const first = one('"user-1"')
    assert.match(first, /^psn_[A-Za-z0-9_-]{43}$/)
    assert.equal(one('"user-1"'), first)
    const others = [one('"user-2"'), one('"user-1"', 'ep_2'), one('"user-1"', 'ep_1', 'another region’s')]
    assert.equal(new Set([first, ...others]).size, 4)
  })

  test('counts the characters of a text, and the bytes of any other value', () => {
    assert.equal(one('"\\u0075ser-1"'), one('"user-1"'))
    const different = ['1', '1.0', '"1"', 'true', '[1]', '{"a":1}'].map((value) => one(value))
    assert.equal(new Set(different).size, different.length)
  })

  test('is what PHP computes, in the form hmac-hex: by the value and the secret of the region alone', () => {
    const hex = (value: string, endpoint?: string) =>
      JSON.parse(shaped(`{"v":${value}}`, { pseudonymize: ['/v'], pseudonymForm: 'hmac-hex' }, endpoint)).v
    // php -r 'echo hash_hmac("sha256", "UC-7é", "a secret that only we know");'
    const known = createHmac('sha256', regionSecret).update('UC-7é').digest('hex')
    assert.deepEqual([hex('"UC-7é"'), hex('"UC-7\\u00e9"', 'ep_2'), hex('null')], [known, known, null])
    assert.equal(hex('42'), hex('"42"'))
  })

  test('is not made of null', () => assert.equal(one('null'), null))

  test('never changes', () => {
    assert.equal(one('"user-1"'), 'psn_JWsSW2ObPNmbdH4o2hApHti9u1pdbmdGuPSEtwh6ea8')
  })
})
