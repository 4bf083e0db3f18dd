import { createHash } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { basename } from 'node:path'

/** One line of the table at the end: a file of a release, or why it was not built here. */
export interface Artefact {
  readonly name: string
  /** How the file was built or checked, or what is missing for it. */
  readonly how: string
  readonly file?: string
  /** The proof of its origin, and the place of that proof. */
  readonly signature: string
}

/** A file that the workflow attests, together with all others in SHA256SUMS. */
export function built(file: string, how: string, signature = 'SHA256SUMS, attested by the workflow'): Artefact {
  return { name: basename(file), how, file, signature }
}

export function notBuilt(name: string, how: string): Artefact {
  return { name, how: `not built here: ${how}`, signature: 'by the workflow' }
}

export function sha256(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex')
}

/** The text of SHA256SUMS, in the form that `sha256sum --check` reads. */
export function checksums(files: readonly string[]): string {
  return files.map((file) => `${sha256(file)}  ${basename(file)}\n`).join('')
}

export function tableOf(artefacts: readonly Artefact[]): string {
  const rows = artefacts.map(({ name, how, file, signature }) => [name, how, megabytes(file), signature])
  const head = ['artefact', 'built or checked', 'MB', 'signature']
  const widths = head.map((title, column) => Math.max(...[head, ...rows].map((row) => (row[column] ?? title).length)))
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd()
  return [line(head), widths.map((width) => '-'.repeat(width)).join('  '), ...rows.map(line)].join('\n')
}

function megabytes(file: string | undefined): string {
  return file === undefined ? '' : (statSync(file).size / 1e6).toFixed(2)
}
