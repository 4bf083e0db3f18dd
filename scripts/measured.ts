import { globSync, readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import { systemClock } from '../src/runtime/clock.ts'
import { systemRandom, systemRandomText } from '../src/runtime/random.ts'
import { openSqliteStore } from '../src/store/sqlite/open.ts'
import type { Vault } from '../src/store/vault.ts'

/** Prints the figures of the whole house, for comparing two commits. */
export async function showMeasured(): Promise<void> {
  const source = join(import.meta.dirname, '../src')
  const texts = globSync('**/*.ts', { cwd: source }).map((path) => readFileSync(join(source, path), 'utf8'))
  const sum = (count: (text: string) => number) => texts.reduce((all, text) => all + count(text), 0)
  console.table({
    'files of TypeScript in src': texts.length,
    'lines without blanks and comments': sum(codeLines),
    'casts with `as`': sum(casts),
    'checks of invariants': sum((text) => [...text.matchAll(/(?<!function )\b(invariant|assert)\(/g)].length),
    'methods of the store': await storeMethods(),
  })
}

function codeLines(text: string): number {
  return text
    .replaceAll(/\/\*[\s\S]*?\*\//g, '')
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.trim().startsWith('//')).length
}

/** Casts are types, which stripping blanks; `as` of SQL, of `as const` and of imports is none. */
function casts(text: string): number {
  const stripped = stripTypeScriptTypes(text)
  return [...text.matchAll(/\bas (?!const\b)/g)].filter(({ index }) => {
    if (stripped[index] !== ' ') return false
    const line = text.slice(text.lastIndexOf('\n', index) + 1, index)
    return !/^\s*(import|export|\/?\*)|\[\w+ in /.test(line) && !/^\s*type \w+$/.test(line)
  }).length
}

async function storeMethods(): Promise<number> {
  const vault: Vault = { sealsWith: 'none', keyIds: ['none'], seal: (text) => text, open: (text) => text }
  const context = { clock: systemClock, random: systemRandom, randomText: systemRandomText, vault }
  const store = await openSqliteStore(context, { path: ':memory:', role: 'owner' })
  const own = Object.values(store).filter((value) => typeof value === 'function').length
  await store.close()
  return own
}
