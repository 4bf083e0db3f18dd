import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { instantText } from '../../src/cli/command.ts'
import { facts, table } from '../../src/cli/table.ts'
import { prettyJson } from '../../src/json/exact.ts'
import { systemTerminal } from '../../src/runtime/process.ts'

const plain = { ...systemTerminal, style: (_format: unknown, text: string) => text }
const columns = [
  { title: 'NAME', cell: ({ name }: Row) => name, flexible: true },
  { title: 'N', cell: ({ n }: Row) => String(n), align: 'right' },
  { title: 'NOTE', cell: ({ note }: Row) => note, flexible: true },
] as const
interface Row {
  readonly name: string
  readonly n: number
  readonly note: string
}
const rows: Row[] = [
  { name: 'a', n: 1, note: 'short' },
  { name: 'x'.repeat(30), n: 1000, note: 'y'.repeat(60) },
]

describe('a table', () => {
  test('elsewhere than on a terminal cuts nothing and has no spaces at the end of a line', () => {
    const lines = table({ ...plain, columns: undefined }, columns, rows).split('\n')
    assert.deepEqual(lines[1], `a${' '.repeat(29)}     1  short`)
    assert.ok(lines[2]?.endsWith('y'.repeat(60)))
    assert.deepEqual(
      lines.map((line) => line.trimEnd()),
      lines,
    )
  })

  for (const width of [40, 80, 120]) {
    test(`on a terminal of ${width} columns has no longer line, and numbers stay whole`, () => {
      const lines = table({ ...plain, columns: width }, columns, rows).split('\n')
      assert.ok(lines.every((line) => line.length <= width))
      assert.match(lines[2] ?? '', / 1000 /)
      assert.equal(/…/.test(lines[2] ?? ''), width < 100)
    })
  }

  test('keeps every cell on its line', () => {
    const text = table(plain, columns, [{ name: 'a\nb\t\u001b[31mc', n: 1, note: '' }])
    assert.equal(text.split('\n').length, 2)
    assert.match(text, /^a b /m)
  })
})

test('facts leave out what is undefined', () => {
  assert.equal(
    facts(plain, [
      ['id', '1'],
      ['longer', undefined],
      ['name', 'x'],
    ]),
    'id    1\nname  x',
  )
})

test('printed JSON keeps numbers as they were written, and what is no JSON is left alone', () => {
  assert.equal(
    prettyJson('{"a":9007199254740993,"b":[1.0,1e400,-0]}'),
    '{\n  "a": 9007199254740993,\n  "b": [\n    1.0,\n    1e400,\n    -0\n  ]\n}',
  )
  assert.equal(prettyJson('{"a":'), undefined)
})

test('an instant is given outright or as a time ago or ahead', () => {
  const now = Date.parse('2026-11-15T12:00:00Z')
  assert.equal(instantText('90m', now), '2026-11-15T10:30:00.000Z')
  assert.equal(instantText('90m', now, 'ahead'), '2026-11-15T13:30:00.000Z')
  assert.equal(instantText('2026-11-15T09:40:00+02:00', now), '2026-11-15T07:40:00.000Z')
  assert.throws(() => instantText('yesterday', now), /must be an instant/)
})
