import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { describe, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import * as library from '../../src/index.ts'

const root = join(import.meta.dirname, '../..')
const entry = join(root, 'bin/index.js')
const pretending = `data:text/javascript,${encodeURIComponent(
  "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })",
)}`
/** Versions of Node on this machine that are too old, beside this one that pretends to be. */
const tooOld: [string, string, string[]][] = [
  ['this Node as 20.20.2', process.execPath, ['--import', pretending]],
  ...(process.env.PATH ?? '').split(delimiter).flatMap((directory): [string, string, string[]][] => {
    const node = join(directory, 'node')
    const version = existsSync(node) ? spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout.trim() : ''
    return /^v(18|20|22)\./.test(version) ? [[`${node} ${version}`, node, []]] : []
  }),
]

describe('the package on a Node that is too old', () => {
  for (const [name, node, flags] of tooOld) {
    test(`says in one sentence which one it needs (${name})`, () => {
      const sentence = /Sluice needs Node 24 or newer; this is (18|20|22)\.\d+\.\d+\./
      const command = spawnSync(node, [...flags, join(root, 'bin/sluice.js'), 'serve'], { encoding: 'utf8' })
      assert.match(command.stderr, new RegExp(`^${sentence.source}\n$`))
      assert.equal(command.status, 2)
      const program = `import(${JSON.stringify(pathToFileURL(entry).href)}).catch((error) => console.log(error.message))`
      const { stdout } = spawnSync(node, [...flags, '-e', program], { encoding: 'utf8' })
      assert.match(stdout, new RegExp(`^${sentence.source}\n$`))
    })
  }

  test('is refused by its own package.json', () => {
    assert.equal(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).engines.node, '>=24')
  })
})

test('the entry of the package exports all that the library does', () => {
  const [, names = ''] = /export const \{([^}]*)\}/.exec(readFileSync(entry, 'utf8')) ?? []
  assert.deepEqual(names.match(/\w+/g)?.sort(), Object.keys(library).sort())
})
