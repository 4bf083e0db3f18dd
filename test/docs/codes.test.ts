import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { exitCode } from '../../src/cli/terminal.ts'
import { deadReasons } from '../../src/domain/judge.ts'
import { outcomeCodes } from '../../src/domain/outcome.ts'
import { readPage, root } from './pages.ts'

/** The code in the first cell of each row of a section's tables. */
function listed(path: string, heading: string): string[] {
  const [, section = ''] = readPage(path).text.split(`\n## ${heading}\n`)
  const cells = [...section.slice(0, section.search(/^## /m)).matchAll(/^\| ((?:`\w+`(?:, )?)+|[\d, ]+) \|/gm)]
  return cells.flatMap(([, cell = '']) => cell.replaceAll('`', '').split(', ')).toSorted()
}

/** The members of a union of texts in the sources. A union has no value that a test could read. */
function membersOf(name: string): string[] {
  const sources = globSync(['src/domain/*.ts', 'src/features/*/*.ts'], { cwd: root }).map((file) =>
    readFileSync(join(root, file), 'utf8'),
  )
  const declaration = new RegExp(`export type ${name} =\\n((?:  \\| .*\\n)+)`)
  const [, body = ''] = sources.map((source) => declaration.exec(source)).find((match) => match !== null) ?? []
  assert.notEqual(body, '', name)
  return [...body.matchAll(/^ {2}\| '(\w+)'/gm)].map(([, member = '']) => member)
}

test('errors.md lists every code of an attempt', () => {
  // It is the code of a dead letter.
  const codes = outcomeCodes.filter((code) => code !== 'untried')
  assert.deepEqual(listed('docs/errors.md', 'Attempts'), codes.toSorted())
})

test('errors.md lists every reason of a dead letter', () => {
  assert.deepEqual(listed('docs/errors.md', 'Dead letters'), deadReasons.toSorted())
})

test('errors.md lists every exit code', () => {
  const codes = [...Object.values(exitCode), 70, 130, 143].map(String)
  assert.deepEqual(listed('docs/errors.md', 'Exit codes'), codes.toSorted())
})

test('troubleshooting.md lists every reason of `sluice why`', () => {
  const { text } = readPage('docs/troubleshooting.md')
  const reasons = [...membersOf('BlockerReason'), ...membersOf('WhyReason')]
  assert.deepEqual(
    reasons.filter((reason) => !text.includes(`\`${reason}\``)),
    [],
  )
})
