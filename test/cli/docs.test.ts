import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { Command } from 'commander'
import type { World } from '../../src/cli/command.ts'
import { buildProgram } from '../../src/cli/program.ts'
import { systemTerminal } from '../../src/runtime/process.ts'

const root = join(import.meta.dirname, '../..')
const example = /^(?:.*\| |\$ )?(?:npx )?sluice (.+)$/

describe('the documentation', () => {
  for (const file of ['README.md', ...globSync('docs/**/*.md', { cwd: root })]) {
    const lines = examplesIn(readFileSync(join(root, file), 'utf8'))
    if (lines.length === 0) continue
    test(`${file}: the program accepts all ${lines.length} command lines`, async () => {
      for (const line of lines) {
        await assert.doesNotReject(parser().parseAsync(wordsOf(line), { from: 'user' }), `sluice ${line}`)
      }
    })
  }

  for (const line of ['app show acme', 'endpoint show acme main', 'schedule get acme daily', 'dead get acme msg_1']) {
    test(`get and show are one command: sluice ${line}`, async () => {
      await parser().parseAsync(line.split(' '), { from: 'user' })
    })
  }

  test('docs/cli.md names every command', () => {
    const text = readFileSync(join(root, 'docs/cli.md'), 'utf8')
    const shown = new Set(examplesIn(text).map((line) => nameOf(parser(), wordsOf(line))))
    for (const [, line = ''] of text.matchAll(/`sluice ([^`]+)`/g)) shown.add(nameOf(parser(), wordsOf(line)))
    const missing = namesIn(parser()).filter((name) => !shown.has(name))
    assert.deepEqual(missing, [])
  })
})

/** The program with commands that do nothing: it only reads its command line. */
function parser(): Command {
  const terminal = { ...systemTerminal, env: {}, print: () => {}, printError: () => {} }
  const program = buildProgram({ version: '1.0.0', terminal } as unknown as World, () => {})
  const disarm = (command: Command): void => {
    command.exitOverride()
    if (acts(command)) command.action(() => {})
    for (const child of command.commands) disarm(child)
  }
  for (const command of program.commands) disarm(command)
  return program
}

/** The command lines in the code blocks, without `sluice`. */
function examplesIn(text: string): string[] {
  const blocks = [...text.matchAll(/^```(?:sh|console|text)?\n(.*?)^```$/gms)].map(([, block = '']) => block)
  const lines = blocks.flatMap((block) => block.split('\n'))
  return lines.flatMap((line) => example.exec(line)?.[1] ?? [])
}

/** The words of a command line, up to a comment, a pipe or a redirection. */
function wordsOf(line: string): string[] {
  const words: string[] = []
  for (const [word] of line.matchAll(/'[^']*'|"[^"]*"|\S+/g)) {
    if (/^[#|>&]/.test(word)) break
    words.push(/^['"]/.test(word) ? word.slice(1, -1) : word)
  }
  return words
}

/** The command that a command line runs, such as `dead replay`. */
function nameOf(program: Command, words: readonly string[]): string {
  let command = program
  const path: string[] = []
  for (const word of words) {
    const child = command.commands.find((each) => each.name() === word)
    if (child === undefined) break
    command = child
    path.push(word)
  }
  return path.join(' ')
}

/** Whether a command does something itself; a group only has commands below it. */
function acts(command: Command): boolean {
  return (command as unknown as { _actionHandler: unknown })._actionHandler != null
}

/** Every command that does something. */
function namesIn(command: Command, path: readonly string[] = []): string[] {
  return command.commands.flatMap((child) => {
    const own = [...path, child.name()]
    return [...(acts(child) ? [own.join(' ')] : []), ...namesIn(child, own)]
  })
}
