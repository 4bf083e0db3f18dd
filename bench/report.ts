import type { Figures, Row, Target } from './bench.ts'

/** Rounds to four significant digits: more would only suggest an accuracy that no run has. */
export function rounded(value: number): number {
  return Number.isInteger(value) ? value : Number(value.toPrecision(4))
}

/** Every number in the figures, rounded. */
export function roundedFigures(figures: Figures): Figures {
  return Object.fromEntries(
    Object.entries(figures).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.map(roundedRow) : typeof value === 'number' ? rounded(value) : value,
    ]),
  )
}

/** Whether a target is reached. A figure that is not known reaches none. */
export function isMet(figures: Figures, { figure, atLeast = -Infinity, atMost = Infinity }: Target): boolean {
  const value = figures[figure]
  return typeof value === 'number' && value >= atLeast && value <= atMost
}

/** The figures as a table: one line each, with the target and whether it is reached, then the tables among them. */
export function renderFigures(figures: Figures, targets: readonly Target[]): string {
  const rows: Row[] = []
  const tables: string[] = []
  for (const [name, value] of Object.entries(figures)) {
    if (typeof value === 'object') tables.push(renderTable(value))
    else rows.push({ figure: name, value: shown(value), ...verdict(figures, targets, name) })
  }
  return [renderTable(rows), ...tables].join('\n\n')
}

function verdict(figures: Figures, targets: readonly Target[], name: string): Row {
  const target = targets.find(({ figure }) => figure === name)
  if (!target) return { target: '', '': '' }
  const bound = target.atLeast === undefined ? `≤ ${target.atMost}` : `≥ ${target.atLeast}`
  return { target: bound, '': isMet(figures, target) ? 'met' : 'missed' }
}

function renderTable(rows: readonly Row[]): string {
  const columns = Object.keys(rows[0] ?? {})
  const lines = [columns, ...rows.map((row) => columns.map((column) => shown(row[column] ?? '')))]
  const widths = columns.map((_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0)))
  const isNumber = columns.map((column) =>
    rows.every((row) => !Number.isNaN(Number(String(row[column]).replaceAll(',', '')))),
  )
  return lines
    .map((line) => line.map((cell, i) => (isNumber[i] ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0))))
    .map((cells) => `  ${cells.join('  ')}`.trimEnd())
    .join('\n')
}

function roundedRow(row: Row): Row {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [name, typeof value === 'number' ? rounded(value) : value]),
  )
}

function shown(value: number | string): string {
  return typeof value === 'number' ? rounded(value).toLocaleString('en') : value
}
