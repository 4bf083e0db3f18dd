import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import type { TestContext } from 'node:test'
import { main } from '../cli/program.ts'
import { atEnd } from '../e2e/at-end.ts'
import { eventually } from '../e2e/eventually.ts'

/** Commands that go on until they are stopped. A reader runs them in a terminal of their own. */
const stays = /\bsluice (listen|chaos)\b/

/** Whether the machine has the programs that pages call. */
export function hasPrograms(...names: readonly string[]): boolean {
  return names.every((name) => spawnSync('sh', ['-c', `command -v ${name}`]).status === 0)
}

/** One shell that runs the blocks of a page one after the other, as a reader would. */
export class Shell {
  readonly #t: TestContext
  readonly #env: Readonly<Record<string, string>>
  readonly #shell: ChildProcess
  #printed = ''

  constructor(t: TestContext, env: Readonly<Record<string, string>>) {
    this.#t = t
    const { PATH = '', NODE_COMPILE_CACHE } = process.env
    const compiled = NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }
    this.#env = { PATH, ...compiled, NODE: process.execPath, MAIN: main, ...env }
    this.#shell = this.#start('bash', [], (text) => {
      this.#printed += text
    })
    this.#shell.stdin?.write(`${helpers}\n`)
  }

  /** Runs a block to its end; the answer is the text that it printed. */
  async run(block: string): Promise<string> {
    if (stays.test(block)) return this.#inItsOwnTerminal(block)
    this.#printed = ''
    this.#shell.stdin?.write(`${block}\necho "<<$?>>"\n`)
    const [printed = '', code] = await eventually(`the end of ${block}`, () => {
      if (this.#shell.exitCode !== null) throw new Error(`the shell ended: ${this.#printed}`)
      return /^(.*)<<(\d+)>>\n$/s.exec(this.#printed)?.slice(1)
    })
    if (code !== '0') throw new Error(`ended with ${code}: ${block}\n${printed}`)
    return printed
  }

  /** Runs a block until it prints the text, in which `…` stands for anything; once only, if the block changes something. */
  async prints(block: string, expected: string): Promise<void> {
    const wanted = new RegExp(`^${expected.trim().split('…').map(escaped).join('.*?')}$`, 's')
    let printed = ''
    const matches = async () => {
      printed = (await this.run(block)).trim()
      return wanted.test(printed)
    }
    const changes = / -X | -d |--data|\breplay\b/.test(block)
    const matched = changes ? await matches() : await eventually(expected, matches).catch(() => false)
    if (!matched) throw new Error(`${block}\nprinted\n${printed}\ninstead of\n${expected}`)
  }

  async #inItsOwnTerminal(block: string): Promise<string> {
    let printed = ''
    this.#start('bash', ['-c', `${helpers}\n${block}`], (text) => {
      printed += text
    })
    await eventually(`the start of ${block}`, () => / http:\/\/\S+\n/.test(printed))
    return printed
  }

  #start(command: string, args: readonly string[], read: (text: string) => void): ChildProcess {
    const child = spawn(command, args, { env: this.#env, stdio: 'pipe', detached: true })
    child.stdout.setEncoding('utf8').on('data', read)
    child.stderr.setEncoding('utf8').on('data', read)
    const exited = once(child, 'exit')
    atEnd(this.#t, async () => {
      // The group: the shell's children are its own.
      if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
      await exited
    })
    return child
  }
}

/** `npx sluice` runs the program of this checkout, and an answer that is no success ends the shell. */
const helpers =
  'set -e; npx() { shift; "$NODE" "$MAIN" "$@"; }; sluice() { npx sluice "$@"; }; curl() { command curl --fail-with-body "$@"; }'

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/\s+/g, '\\s+')
}
