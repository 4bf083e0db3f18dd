import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
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

describe('the command in a checkout', () => {
  /** The folder in which the command keeps compiled code, or nothing. */
  function cacheWith(before: string, env: NodeJS.ProcessEnv = {}): string {
    const preload = `${before}; process.on('exit', () => console.log('cache:', process.getBuiltinModule('module').getCompileCacheDir()))`
    const line = [
      '--import',
      `data:text/javascript,${encodeURIComponent(preload)}`,
      join(root, 'bin/sluice.js'),
      '--version',
    ]
    const { NODE_COMPILE_CACHE: _, ...others } = process.env
    const { stdout } = spawnSync(process.execPath, line, { encoding: 'utf8', env: { ...others, ...env } })
    return /^cache: (.*)$/m.exec(stdout)?.[1] ?? stdout
  }
  const place = join(root, 'node_modules/.cache/sluice')
  const owner = statSync(join(root, 'src/main.ts')).uid

  test('keeps compiled code in the checkout, for the user to whom it belongs', () => {
    assert(cacheWith(`process.getuid = () => ${owner}`).startsWith(place))
  })

  test('keeps none for another user, and none when it is turned off', () => {
    assert.equal(cacheWith(`process.getuid = () => ${owner + 1}`), 'undefined')
    assert.equal(cacheWith(`process.getuid = () => ${owner}`, { NODE_DISABLE_COMPILE_CACHE: '1' }), 'undefined')
  })
})
