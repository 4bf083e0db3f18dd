import { globSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** What V8 writes into NODE_V8_COVERAGE when a process ends: for each script its functions, each with its blocks. */
interface ProcessCoverage {
  readonly result: readonly { readonly url: string; readonly functions: readonly FunctionCoverage[] }[]
}

interface FunctionCoverage {
  readonly ranges: readonly { readonly startOffset: number; readonly endOffset: number; readonly count: number }[]
}

/** One source file over all processes: which characters ran, and which blocks. */
interface Covered {
  readonly text: string
  readonly ran: Uint8Array
  /** By `start-end`: whether a process entered the block. */
  readonly blocks: Map<string, boolean>
}

interface Sum {
  lines: number
  linesRan: number
  branches: number
  branchesRan: number
}

/**
 * A table of the lines and branches of each folder of `src` that ran, from the files that the processes of a test run left
 * in a directory. Node strips types by writing blanks in their place, so V8's offsets are those of the sources. A process
 * that was killed leaves no file.
 */
export function coverageTable(directory: string, root: string): string {
  // A file that no process loaded counts too.
  const files = new Map(globSync('src/**/*.ts', { cwd: root }).map((path) => [path, unseen(join(root, path))]))
  for (const name of globSync('*.json', { cwd: directory })) {
    const { result } = JSON.parse(readFileSync(join(directory, name), 'utf8')) as ProcessCoverage
    for (const { url, functions } of result) {
      const path = url.startsWith('file:') ? relative(root, fileURLToPath(url)) : ''
      const covered = files.get(path)
      if (covered !== undefined) add(covered, functions)
    }
  }
  const folders = Map.groupBy(files.keys(), (path) => path.split('/').slice(0, -1).join('/'))
  const rows = [...folders].map(([folder, paths]) => ({
    folder,
    sum: together(paths.map((path) => sumOf(files.get(path) as Covered))),
  }))
  rows.sort((a, b) => a.folder.localeCompare(b.folder))
  rows.push({ folder: 'together', sum: together(rows.map(({ sum }) => sum)) })
  const heading = `${'folder'.padEnd(28)}${'lines'.padStart(8)}${'ran'.padStart(8)}${'branches'.padStart(10)}${'ran'.padStart(8)}`
  return [heading, ...rows.map(({ folder, sum }) => row(folder, sum))].join('\n')
}

function unseen(path: string): Covered {
  const text = readFileSync(path, 'utf8')
  return { text, ran: new Uint8Array(text.length), blocks: new Map() }
}

function add(covered: Covered, functions: readonly FunctionCoverage[]): void {
  // Within a process, an inner range says more than the one around it; V8 lists the outer ones first.
  const inThisProcess = new Uint8Array(covered.text.length)
  for (const { ranges } of functions) {
    for (const { startOffset, endOffset, count } of ranges) {
      inThisProcess.fill(count > 0 ? 1 : 0, startOffset, endOffset)
      const block = `${startOffset}-${endOffset}`
      covered.blocks.set(block, count > 0 || covered.blocks.get(block) === true)
    }
  }
  for (let i = 0; i < inThisProcess.length; i++) if (inThisProcess[i] === 1) covered.ran[i] = 1
}

/** A line counts if it has code. It ran if its last character ran: a line that only begins in a block that ran did not. */
function sumOf({ text, ran, blocks }: Covered): Sum {
  const sum = { lines: 0, linesRan: 0, branches: blocks.size, branchesRan: 0 }
  for (const entered of blocks.values()) if (entered) sum.branchesRan++
  let start = 0
  for (const line of text.split('\n')) {
    const code = line.trim()
    if (code !== '' && !/^(\/\/|\/\*|\*)/.test(code)) {
      sum.lines++
      if (ran[start + line.trimEnd().length - 1] === 1) sum.linesRan++
    }
    start += line.length + 1
  }
  return sum
}

function together(sums: readonly Sum[]): Sum {
  const all = { lines: 0, linesRan: 0, branches: 0, branchesRan: 0 }
  for (const sum of sums)
    for (const key of ['lines', 'linesRan', 'branches', 'branchesRan'] as const) all[key] += sum[key]
  return all
}

function row(folder: string, { lines, linesRan, branches, branchesRan }: Sum): string {
  const share = (part: number, whole: number) => `${whole === 0 ? 100 : Math.floor((100 * part) / whole)} %`.padStart(8)
  const counts = [
    String(lines).padStart(8),
    share(linesRan, lines),
    String(branches).padStart(10),
    share(branchesRan, branches),
  ]
  return folder.padEnd(28) + counts.join('')
}
