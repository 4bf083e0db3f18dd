import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const page = join(import.meta.dirname, '../docs/faults.md')

/** Puts both tables into docs/faults.md, in the place of those there. */
export function writeTable(rows: string, found: string): void {
  const text = readFileSync(page, 'utf8')
  const tables = /(?:^\|.*\n)+/gm
  let seen = 0
  writeFileSync(
    page,
    text.replace(tables, () => `${[rows, found][seen++] ?? ''}\n`),
  )
}
