import { execFileSync } from 'node:child_process'
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Command } from 'commander'
import type { World } from '../src/cli/command.ts'
import { buildProgram } from '../src/cli/program.ts'
import { openApiDocument } from '../src/operations/openapi.ts'
import { registeredStatements } from '../src/store/sql/statement.ts'

/**
 * Writes everything of Sluice that is seen from outside, one file each: the OpenAPI document, the schemas of both databases,
 * the generated pages, the help of every command, the completion scripts, and every SQL statement of both databases by name.
 * A change of the inside leaves all of them as they are:
 *
 *     npx node scripts/outside.ts /tmp/before      before the change
 *     npx node scripts/outside.ts /tmp/after       after it
 *     diff -r /tmp/before /tmp/after
 */
const root = join(import.meta.dirname, '..')
const [folder] = process.argv.slice(2)
if (folder === undefined) throw new Error('Name the folder to write to: npx node scripts/outside.ts FOLDER')

const outside: Readonly<Record<string, string>> = {
  'openapi.json': `${JSON.stringify(inOrder(openApiDocument()), null, 2)}\n`,
  ...Object.fromEntries([...files('src/store/*/schema.sql'), ...files('docs/*.md')]),
  'help.txt': helpOf(program()).join('\n'),
  ...Object.fromEntries(['bash', 'zsh', 'fish'].map((shell) => [`completion.${shell}`, completion(shell)])),
  'sqlite.sql': await statements('sqlite'),
  'postgres.sql': await statements('postgres'),
}

for (const [name, text] of Object.entries(outside)) {
  const path = join(folder, name)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

function files(pattern: string): [string, string][] {
  return globSync(pattern, { cwd: root })
    .sort()
    .map((path) => [path, readFileSync(join(root, path), 'utf8')])
}

/** The same value with the properties of objects, and the names of those that are required, in one order: no client sees it. */
function inOrder(value: unknown, name = ''): unknown {
  if (Array.isArray(value)) return name === 'required' ? value.toSorted() : value.map((item) => inOrder(item))
  if (typeof value !== 'object' || value === null) return value
  const sorted = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(sorted.map(([key, item]) => [key, inOrder(item, key)]))
}

/** The program with its commands, none of which is run. */
function program(): Command {
  return buildProgram({ version: '', terminal: { env: {} } } as unknown as World, () => {})
}

function helpOf(command: Command): string[] {
  return [command.helpInformation(), ...command.commands.flatMap(helpOf)]
}

function completion(shell: string): string {
  return execFileSync(process.execPath, [join(root, 'src/main.ts'), 'completion', shell], { encoding: 'utf8' })
}

/** The statements of a database in the order of their names; indents and line breaks do not count. */
async function statements(dialect: 'sqlite' | 'postgres'): Promise<string> {
  for (const path of globSync(`src/store/{sql,${dialect}}/*.ts`, { cwd: root })) await import(join(root, path))
  for (const path of globSync('src/features/*/*rows.ts', { cwd: root })) await import(join(root, path))
  return [...registeredStatements(dialect)]
    .map(([name, text]) => `${name}: ${text.replaceAll(/\s+/g, ' ').trim()}\n`)
    .sort()
    .join('')
}
