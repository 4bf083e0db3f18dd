import { spawnSync } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Runs every attack in its long form, one after the other, and prints a table of what each did to the server. */
const directory = mkdtempSync(join(tmpdir(), 'sluice-attack-'))
const report = join(directory, 'report.jsonl')
const files = globSync(join(import.meta.dirname, '*.test.ts')).sort()
const { status } = spawnSync(process.execPath, ['--test', '--test-concurrency=1', ...files, ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: { ...process.env, SLUICE_ATTACK: 'long', SLUICE_ATTACK_REPORT: report },
})
const lines = readLines(report)
rmSync(directory, { recursive: true })
console.table(lines)
process.exitCode = status ?? 1

function readLines(path: string): Record<string, unknown>[] {
  try {
    return readFileSync(path, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}
