import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'

const main = join(import.meta.dirname, '../../src/main.ts')

/** A run of the real program in a directory of its own. */
export class Run {
  readonly child: ChildProcess
  readonly ended: Promise<number | null>
  out = ''
  err = ''

  constructor(args: readonly string[], directory: string, env: Record<string, string>) {
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_'))
    this.child = spawn(process.execPath, [main, ...args], {
      cwd: directory,
      env: { ...Object.fromEntries(inherited), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.child.stdout?.on('data', (chunk) => {
      this.out += chunk
    })
    this.child.stderr?.on('data', (chunk) => {
      this.err += chunk
    })
    this.ended = once(this.child, 'close').then(([code]) => code)
  }

  /** Waits until standard output matches; the answer is the first group. Throws when the program ends before. */
  async says(pattern: RegExp): Promise<string> {
    for (;;) {
      const match = pattern.exec(this.out)
      if (match) return match[1] ?? match[0]
      const gone = await Promise.race([
        once(this.child.stdout as NonNullable<ChildProcess['stdout']>, 'data').then(() => false),
        this.ended.then(() => true),
      ])
      if (gone && !pattern.test(this.out)) throw new Error(`the program ended with: ${this.out}${this.err}`)
    }
  }
}

/** A directory and the programs run in it; all of it is gone after the tests of the file. */
export function workplace(): { directory: string; run: (args: string, env?: Record<string, string>) => Run } {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-cli-'))
  const runs: Run[] = []
  after(async () => {
    for (const { child } of runs) child.kill('SIGKILL')
    await Promise.all(runs.map(({ ended }) => ended))
    rmSync(directory, { recursive: true })
  })
  return {
    directory,
    run(args, env = {}) {
      const run = new Run(args.split(' '), directory, env)
      runs.push(run)
      return run
    },
  }
}
