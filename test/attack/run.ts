import { spawnSync } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before } from './before.ts'

/**
 * Runs every attack in its long form, one after the other, and prints a table of what each did to the server, beside what it
 * did before. Fails when an attack with such a figure is no longer in the table.
 */
const directory = mkdtempSync(join(tmpdir(), 'sluice-attack-'))
const report = join(directory, 'report.jsonl')
const files = globSync(join(import.meta.dirname, '*.test.ts')).sort()
const { status } = spawnSync(process.execPath, ['--test', '--test-concurrency=1', ...files, ...process.argv.slice(2)], {
  stdio: 'inherit',
  env: { ...process.env, SLUICE_ATTACK: 'long', SLUICE_ATTACK_REPORT: report },
})
const lines = readLines(report)
rmSync(directory, { recursive: true })
console.table(lines.map((line) => ({ ...line, before: before[String(line.attack)] ?? '' })))
const missing = Object.keys(before).filter((name) => !lines.some(({ attack }) => attack === name))
const isWhole = process.argv.length === 2
if (isWhole && missing.length > 0) console.error(`No figures of: ${missing.join(', ')}`)
process.exitCode = isWhole && missing.length > 0 ? 1 : (status ?? 1)

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
