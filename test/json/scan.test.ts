import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { AppError } from '../../src/domain/app-error.ts'
import { depthLimit, keyLimit, Scanner } from '../../src/json/scan.ts'
import { anyCharacter } from '../any-character.ts'

const scanner = new Scanner(0x5eed)

/** The result of a scan: the text of the payload, undefined when there is none, or the code of the refusal. */
function scan(body: string | Buffer): { payload: string | undefined } | { refused: string } {
  const bytes = Buffer.from(body as string)
  try {
    const span = scanner.scan(bytes, 'payload')
    return { payload: span && bytes.toString('utf8', span.start, span.end) }
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    return { refused: error.code }
  }
}

function parses(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

describe('grammar', () => {
  const good = [
    '0',
    '-0',
    '1.0',
    '-1.5e+10',
    '1E400',
    '""',
    '"\\u00e9\\"\\\\\\/\\b\\f\\n\\r\\t"',
    'true',
    'false',
    'null',
  ]
  const blank = ['[]', '{}', '[[],{}]', ' \t\r\n[ 1 , "a" , { "b" : [ ] } ] \n', '{"":{"":0}}', '"\u2028"', '"\\ud800"']
  for (const text of [...good, ...blank]) {
    test(`accepts ${JSON.stringify(text)}`, () => {
      assert.ok(parses(text))
      assert.deepEqual(scan(text), { payload: undefined })
    })
  }

  const bad = [
    ...['', ' ', '\ufeff{}', '{', '}', '[', ']', '[1', '[1,', '[1,]', '[,1]', '[1 2]', '[1]]', '[1}', '{"a":1]'],
    ...['{"a"}', '{"a":}', '{"a":1,}', '{,}', '{a:1}', "{'a':1}", '{"a" 1}', '{"a":1 "b":2}', '{1:1}', '1 2', '{}{}'],
    ...['01', '-', '+1', '.5', '1.', '1.e3', '1e', '1e+', '0x10', '1_0', 'NaN', 'Infinity', '-Infinity', '--1'],
    ...['tru', 'True', 'nul', 'nulll', 'undefined', '"', '"\\"', '"\\x"', '"\\u12"', '"\\u12g4"', '"a\nb"', '"\u0000"'],
    ...['/* */ 1', '1 // x', '[1]\u00a0', '\u000b1', '{"a":1}x'],
  ]
  for (const text of bad) {
    test(`refuses ${JSON.stringify(text)}`, () => {
      assert.ok(!parses(text))
      assert.deepEqual(scan(text), { refused: 'invalid_json' })
    })
  }

  test('a body cut anywhere is refused, never read beyond its end', () => {
    const whole = '{"a":[1.5e3,true,null,{"\\u0062":"\\n\\ud83d\\ude00"}],"payload":{}}'
    for (let end = 0; end < whole.length; end++) {
      assert.deepEqual(scan(whole.slice(0, end)), { refused: 'invalid_json' }, whole.slice(0, end))
    }
    assert.deepEqual(scan(whole), { payload: '{}' })
  })

  test('bytes behind the body in the same memory are not read', () => {
    const memory = Buffer.from('[12345]')
    assert.throws(() => scanner.scan(memory.subarray(0, 4)), { code: 'invalid_json' })
    assert.throws(() => scanner.scan(Buffer.from('"abc"').subarray(0, 4)), { code: 'invalid_json' })
  })

  test('says what is wrong and where', () => {
    assert.throws(() => scanner.scan(Buffer.from('{"a":x}')), {
      message: "The body is not valid JSON: unexpected 'x' at byte 5.",
    })
    assert.throws(() => scanner.scan(Buffer.from('[1,')), { message: 'The JSON text ends too early.' })
    assert.throws(() => scanner.scan(Buffer.from('')), { message: 'The body is empty.' })
  })
})

describe('the extra rules', () => {
  const cases: [string, string | Buffer, string][] = [
    ['a stray continuation byte', Buffer.from([0x22, 0x80, 0x22]), 'invalid_utf8'],
    ['an overlong encoding', Buffer.from([0x22, 0xc0, 0xaf, 0x22]), 'invalid_utf8'],
    ['a surrogate encoded as UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), 'invalid_utf8'],
    ['a key twice', '{"a":1,"b":2,"a":3}', 'duplicate_key'],
    ['a key twice, deep inside', '[{"x":{"a":[],"b":{},"a":0}}]', 'duplicate_key'],
    ['a key twice, once spelt with an escape', '{"a":1,"\\u0061":2}', 'duplicate_key'],
    ['a key twice, both spelt with escapes', '{"\\u00e9":1,"\\u00E9":2}', 'duplicate_key'],
    ['a key of four bytes twice, once as a surrogate pair', '{"😀":1,"\\ud83d\\ude00":2}', 'duplicate_key'],
    ['the empty key twice', '{"":1,"":2}', 'duplicate_key'],
    ['a lone surrogate as key twice', '{"\\ud800":1,"\\uD800":2}', 'duplicate_key'],
    ['__proto__ twice', '{"__proto__":1,"__proto__":2}', 'duplicate_key'],
    ['nesting beyond the limit', '['.repeat(depthLimit + 1) + ']'.repeat(depthLimit + 1), 'too_deep'],
    ['nesting far beyond the limit', '['.repeat(100_000), 'too_deep'],
    ['nesting of objects beyond the limit', `${'{"a":'.repeat(depthLimit + 1)}1`, 'too_deep'],
    ['too many keys', JSON.stringify(keyed(keyLimit + 1)), 'too_many_keys'],
    [
      'too many keys over several objects',
      JSON.stringify([keyed(keyLimit / 2), keyed(keyLimit / 2 + 1)]),
      'too_many_keys',
    ],
  ]
  for (const [name, body, code] of cases) {
    test(`refuses ${name}`, () => assert.deepEqual(scan(body), { refused: code }))
  }

  const fine: [string, string][] = [
    ['the same key in different objects', '[{"a":{"a":1}},{"a":2}]'],
    ['keys that differ only in case or length', '{"a":1,"A":2,"aa":3,"":4}'],
    ['different lone surrogates, and what they would be replaced by', '{"\\ud800":1,"\\ud801":2,"\ufffd":3}'],
    ['nesting at the limit', '['.repeat(depthLimit) + ']'.repeat(depthLimit)],
    ['keys at the limit', JSON.stringify(keyed(keyLimit))],
  ]
  for (const [name, body] of fine) {
    test(`accepts ${name}`, () => assert.deepEqual(scan(body), { payload: undefined }))
  }

  function keyed(count: number): Record<string, number> {
    return Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, i]))
  }
})

describe('the payload', () => {
  const cases: [string, string | undefined][] = [
    ['{"payload":{"a":1}}', '{"a":1}'],
    [
      '{"eventType":"x", "payload" :  { "2" : 1.0, "1" : 9007199254740993 } , "channels":[]}',
      '{ "2" : 1.0, "1" : 9007199254740993 }',
    ],
    ['{"payload":{"payload":{"payload":1}},"x":{"payload":2}}', '{"payload":{"payload":1}}'],
    ['{"x":{"payload":2}}', undefined],
    ['[{"payload":2}]', undefined],
    ['{"p\\u0061yload":[1]}', '[1]'],
    ['{"payload":null}', 'null'],
    ['{"payload":-1.50e-3 }', '-1.50e-3'],
    ['{"payload":"a\\"}" }', '"a\\"}"'],
    ['{"payload":[] }', '[]'],
  ]
  for (const [body, payload] of cases) test(`of ${body}`, () => assert.deepEqual(scan(body), { payload }))
})

describe('for any input', () => {
  test('the scanner accepts exactly what JSON.parse accepts', () => {
    // Mutated JSON is wrong in more interesting places than random text.
    const mutated = fc
      .tuple(
        fc.json({ maxDepth: 5 }),
        fc.nat(),
        fc.constantFrom('', '"', ',', ':', '{', '}', '[', ']', '\\', '0', '-', 'e', '\t', 'u'),
      )
      .map(
        ([text, at, insert]) =>
          `${text.slice(0, at % (text.length + 1))}${insert}${text.slice((at % (text.length + 1)) + (at % 2))}`,
      )
      .filter((text) => text.isWellFormed())
    fc.assert(
      fc.property(
        fc.oneof(
          fc.json(),
          mutated,
          fc.string({ unit: anyCharacter }).filter((text) => text.isWellFormed()),
        ),
        (text) => {
          const said = scan(text)
          // A mutation may turn two keys into one, which JSON.parse does not mind.
          if ('refused' in said && said.refused === 'duplicate_key') return
          assert.equal('payload' in said, parses(text), text)
        },
      ),
      { numRuns: 3000 },
    )
  })

  test('a key is refused when an equal one stands in the object, however the two are spelt, and only then', () => {
    const spelt = fc.tuple(fc.constantFrom('a', 'b', 'é', '€', '😀', 'aé', ''), fc.boolean())
    fc.assert(
      fc.property(fc.array(spelt, { maxLength: 6 }), (keys) => {
        const members = keys.map(([key, escaped]) => `"${escaped ? spellOut(key) : key}":0`)
        const unique = new Set(keys.map(([key]) => key)).size === keys.length
        assert.deepEqual(scan(`{${members.join(',')}}`), unique ? { payload: undefined } : { refused: 'duplicate_key' })
      }),
    )
  })

  test('the span of the payload is the very text that was sent', () => {
    const member = fc.tuple(
      fc.string().filter((key) => key !== 'payload'),
      fc.json({ maxDepth: 3 }),
    )
    const space = fc.constantFrom('', ' ', '\n\t ')
    const others = fc.uniqueArray(member, { selector: ([key]) => key, maxLength: 4 })
    fc.assert(
      fc.property(others, fc.nat(), fc.json({ maxDepth: 4 }), space, (list, at, payload, blank) => {
        const members = list.map(([key, value]) => `${JSON.stringify(key)}:${value}`)
        members.splice(at % (members.length + 1), 0, `${blank}"payload"${blank}:${blank}${payload}${blank}`)
        assert.deepEqual(scan(`${blank}{${members.join(',')}}${blank}`), { payload })
      }),
    )
  })

  test('values are counted outside of the named member alone, and a key without a name is no such member', () => {
    const many = `[${'0,'.repeat(60_000)}0]`
    assert.deepEqual(scan(`{"payload":${many},"a":1}`), { payload: many })
    assert.deepEqual(scan(`{"a":${many},"payload":1}`), { refused: 'too_many_keys' })
    assert.deepEqual(scan(`{"payload":1,"a":${many}}`), { refused: 'too_many_keys' })
    assert.throws(() => scanner.scan(Buffer.from(`{"":${many}}`)), { code: 'too_many_keys' })
  })

  function spellOut(key: string): string {
    return [...Array(key.length).keys()].map((i) => `\\u${key.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')
  }
})
