import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { shortLived } from '../prepared.ts'
import { atEnd } from './at-end.ts'
import { settingsOf } from './program.ts'

const root = join(import.meta.dirname, '../..')

/** A later version of this program: its sources, and migrations that this version does not have. */
export interface LaterVersion {
  /** What `node` starts. */
  readonly program: string
  /** Runs a command to its end. */
  run(
    args: readonly string[],
    store: string,
  ): Promise<{ readonly code: number; readonly out: string; readonly err: string }>
}

/** Makes a later version whose additional migrations, in order, are the same for both databases. It is gone when the test ends. */
export function laterVersion(
  t: TestContext,
  version: string,
  known: number,
  migrations: readonly string[],
): LaterVersion {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-later-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  cpSync(join(root, 'src'), join(folder, 'src'), { recursive: true })
  for (const name of ['node_modules', 'receiver', 'ui']) symlinkSync(join(root, name), join(folder, name))
  const packageText = readFileSync(join(root, 'package.json'), 'utf8')
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...JSON.parse(packageText), version }))
  for (const [at, sql] of migrations.entries()) {
    const file = `${String(known + 1 + at).padStart(4, '0')}_later.sql`
    for (const dialect of ['sqlite', 'postgres'])
      writeFileSync(join(folder, 'src/store', dialect, 'migrations', file), sql)
  }
  const program = join(folder, 'src/main.ts')
  return {
    program,
    run: (args, store) =>
      new Promise((resolve) => {
        const env = { PATH: process.env.PATH, ...settingsOf(store, {}) }
        execFile(process.execPath, [...shortLived, program, ...args], { cwd: folder, env }, (error, out, err) =>
          resolve({ code: error === null ? 0 : Number(error.code), out, err }),
        )
      }),
  }
}
