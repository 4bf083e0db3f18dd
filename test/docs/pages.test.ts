import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { describe, test } from 'node:test'
import { variableOf } from '../../src/runtime/setting-names.ts'
import { settingNames } from '../../src/runtime/settings.ts'
import { runHere } from '../cli/program.ts'
import { anchorsOf, type Page, readPage, readPages, root } from './pages.ts'

const pages = readPages()
/** Pages that speak of today. A changelog and a decision also name things that are gone. */
const current = pages.filter(({ path }) => path !== 'CHANGELOG.md' && !path.startsWith('docs/decisions/'))

/** Words without a noun that acts, and sentences that begin with them. */
const abstract =
  /\b((?<!floods )nobody|somebody|whoever|whatever|anew|of late|for people|is told|are told|told of)\b|(?:^|[.!:|] |- |\*\*)(What|Who|One that|Whoever) (?!\S+[^.\n]*\?)(?!is new)\w+/gim

/** The abstract words of a text, without its code. */
const abstractIn = (text: string) =>
  [...text.replace(/`[^`]*`/g, '``').matchAll(abstract)].map(([words]) => words.trim())

describe('in every page', () => {
  test('links lead to a file, and to a heading in it', () => {
    const dead = pages.flatMap((page) => linksOf(page).flatMap((target) => problemOf(page, target)))
    assert.deepEqual(dead, [])
  })

  test('files that are named exist', () => {
    const missing = current.flatMap(({ path, prose }) =>
      codeIn(prose)
        .filter((code) => /^(src|test|docs|bench|faults|scripts|examples|lint|bin|ui(?!\/dist))\/[\w./*-]*$/.test(code))
        .filter((file) => globSync(file.replace(/\/$/, ''), { cwd: root }).length === 0)
        .map((file) => `${path}: ${file}`),
    )
    assert.deepEqual(missing, [])
  })

  test('files of the sources that contributors are sent to exist', () => {
    const missing = current
      .filter(({ path }) => path.startsWith('docs/contributing/'))
      .flatMap(({ path, prose }) =>
        codeIn(prose)
          .filter((code) => /^[\w-]+(\/[\w-]+)+\.ts$/.test(code) && !/^(src|test|ui|scripts)\//.test(code))
          .filter((file) => globSync([`src/${file}`, `src/*/${file}`], { cwd: root }).length === 0)
          .map((file) => `${path}: ${file}`),
      )
    assert.deepEqual(missing, [])
  })

  test('variables are settings, or of the command line', () => {
    const others = ['SLUICE_URL', 'SLUICE_API_KEY', 'SLUICE_PROFILE', 'SLUICE_CONFIG', 'SLUICE_SETTINGS_VERSION']
    const known = new Set([...settingNames.map(variableOf), ...others])
    const unknown = current.flatMap(({ path, text }) =>
      [...text.matchAll(/SLUICE_[A-Z_]+/g)].filter(([name]) => !known.has(name)).map(([name]) => `${path}: ${name}`),
    )
    assert.deepEqual(unknown, [])
  })

  test('commands exist, with their options', async () => {
    const wrong: string[] = []
    const helps = new Map<string, Promise<string>>()
    const helpOf = (words: readonly string[]) => {
      const key = words.join(' ')
      const known = helps.get(key) ?? runHere([...words, '--help'], { directory: root }, {}).then(({ out }) => out)
      helps.set(key, known)
      return known
    }
    const top = await helpOf([])
    for (const { path, line } of current.flatMap(commandsOf)) {
      const [name = '', second = ''] = line.split(/\s+/)
      if (!listed(top, name)) {
        wrong.push(`${path}: sluice ${line}`)
        continue
      }
      const words = listed(await helpOf([name]), second) ? [name, second] : [name]
      const help = await helpOf(words)
      for (const [flag] of line.replace(/'[^']*'|"[^"]*"/g, '').matchAll(/(?<=\s)--[a-z][a-z-]*/g))
        if (!new RegExp(`${flag}\\b(?!-)`).test(help)) wrong.push(`${path}: sluice ${words.join(' ')} ${flag}`)
    }
    assert.deepEqual(wrong, [])
  })

  test('operations of the API exist', () => {
    const reference = JSON.parse(readFileSync(join(root, 'docs/openapi.json'), 'utf8')) as {
      readonly paths: Readonly<Record<string, object>>
    }
    const patterns = Object.entries(reference.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => {
        const segments = path.replace(/^\/api\/v1/, '').replace(/\{[^}]+\}/g, '[^/]+')
        return new RegExp(`^${method.toUpperCase()} (/api/v1)?${segments}$`)
      }),
    )
    // The page of Svix's operations names those that Sluice lacks, and has a test of its own.
    const others = current.filter(({ path }) => path !== 'docs/svix-operations.md')
    const wrong = others.flatMap((page) =>
      operationsOf(page)
        // Paths below /-/ are those of the edge, which has tests of its own.
        .filter((operation) => !operation.includes(' /-/') && !patterns.some((pattern) => pattern.test(operation)))
        .map((operation) => `${page.path}: ${operation}`),
    )
    assert.deepEqual(wrong, [])
  })

  test('the words are plain', () => {
    const found = pages.flatMap(({ path, prose }) =>
      abstractIn(prose.replace(/^#.*$/gm, '')).map((words) => `${path}: ${words}`),
    )
    assert.deepEqual(found, [])
  })
})

test('the words of the API are plain', () => {
  const text = readFileSync(join(root, 'docs/openapi.json'), 'utf8')
  const sentences = [...text.matchAll(/"(?:description|summary)": ("(?:[^"\\]|\\.)*")/g)].map(([, json = '""']) => json)
  assert.ok(sentences.length > 1000)
  assert.deepEqual(
    sentences.flatMap((json) => abstractIn(JSON.parse(json) as string)),
    [],
  )
})

test('the words of comments are plain', () => {
  const files = globSync('{src,ui/src,edge/src,receiver/src,bench,scripts}/**/*.{ts,tsx}', { cwd: root })
  const found = files.flatMap((file) => {
    const comments = readFileSync(join(root, file), 'utf8').match(/^ *(\/\*\*|\*|\/\/) .*$/gm) ?? []
    // A sentence may go on in the next line, so only words within a line, and its begin behind the mark, are looked at.
    return comments.flatMap((line) =>
      abstractIn(line.replace(/^ *(\/\*\*|\*|\/\/) /, ''))
        // "Never throws, whatever arrives" is plain where no user reads it.
        .filter((words) => !/^whatever/i.test(words))
        .map((words) => `${file}: ${words}`),
    )
  })
  assert.deepEqual(found, [])
})

test('every page is linked from another', () => {
  const linked = new Set(
    pages.flatMap((page) => linksOf(page).map((link) => normalize(join(dirname(page.path), link.replace(/#.*/, ''))))),
  )
  const folders = [...linked].filter((path) => path.endsWith('/'))
  const lonely = pages
    .map(({ path }) => path)
    .filter((path) => path.startsWith('docs/') && !linked.has(path))
    .filter((path) => !folders.some((folder) => path.startsWith(folder)))
  assert.deepEqual(lonely, [])
})

test('guarantees.md names checks of the simulation that exist', () => {
  const checks = globSync('test/simulation/*.ts', { cwd: root })
    .map((file) => readFileSync(join(root, file), 'utf8'))
    .join('\n')
  const [, section = ''] = readPage('docs/guarantees.md').text.split('## Proofs\n')
  const named = [...section.matchAll(/simulation: ([^\n]*)/g)].flatMap(([, list = '']) => codeIn(list))
  assert.ok(named.length > 10)
  assert.deepEqual(
    named.filter((name) => !new RegExp(`\\b${name}\\(`).test(checks)),
    [],
  )
})

/** The targets of links within the repository. */
function linksOf({ prose }: Page): string[] {
  return [...prose.matchAll(/\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"/g)]
    .map(([, link, source]) => link ?? source ?? '')
    .filter((target) => !/^[a-z]+:/.test(target))
}

function problemOf(page: Page, target: string): string[] {
  const [file = '', anchor] = target.split('#')
  const path = file === '' ? page.path : normalize(join(dirname(page.path), file))
  if (!existsSync(join(root, path))) return [`${page.path}: ${target}`]
  if (anchor === undefined || !path.endsWith('.md')) return []
  return anchorsOf(readPage(path)).has(anchor) ? [] : [`${page.path}: ${target}`]
}

/** The texts in backquotes. */
function codeIn(prose: string): string[] {
  return [...prose.matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code)
}

/** The command lines of a page, without the program's name: in blocks for shells, and in backquotes. */
function commandsOf({ path, prose, blocks }: Page): { path: string; line: string }[] {
  const lines = [...blocks.filter(({ language }) => language === 'sh').map(({ code }) => code), ...codeIn(prose)]
    .flatMap((code) => code.replaceAll('\\\n', ' ').split('\n'))
    .flatMap((line) => [...line.matchAll(/(?:^|[|;(&] ?|\$\(|=\S+ |\/)(?:npx )?sluice ([a-z][^#|)&;]*)/g)])
  return lines.map(([, line = '']) => ({ path, line: line.trim() }))
}

/** Whether a help text has a line for the command. */
function listed(help: string, name: string): boolean {
  return /^[a-z][a-z-]*$/.test(name) && new RegExp(`^  ${name}( |$)`, 'm').test(help)
}

/** The operations of the API that a page names: `POST /app/{app}/msg`, or curl with a path below /api/v1. */
function operationsOf({ prose, blocks }: Page): string[] {
  const named = codeIn(prose).flatMap((code) => {
    const [, method, path = ''] = /^(GET|POST|PUT|PATCH|DELETE) (\/[\w/{}:.-]+)$/.exec(code) ?? []
    return method === undefined ? [] : [`${method} ${path}`]
  })
  const called = blocks
    .filter(({ language }) => language === 'sh')
    .flatMap(({ code }) => code.replaceAll('\\\n', ' ').split('\n'))
    .flatMap((line) => {
      const [, path] = /\/api\/v1(\/[^\s"'?)]*)/.exec(line) ?? []
      if (path === undefined || !line.includes('curl')) return []
      const [, method] = /-X ([A-Z]+)/.exec(line) ?? []
      return [`${method ?? (/ -d | --data/.test(line) ? 'POST' : 'GET')} ${path}`]
    })
  return [...named, ...called]
}
