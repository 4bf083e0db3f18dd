import { age, roughly, withCommas } from '../domain/phrases.ts'
import type { Terminal } from '../runtime/process.ts'
import type { Item } from './client.ts'

/** A column of a table: its heading and the text of its cells. */
export interface Column<T> {
  readonly title: string
  /** The field of the item that is shown, or the text made from the item. */
  readonly cell: (keyof T & string) | ((item: T) => string)
  readonly align?: 'right'
  /** The colour of a cell, on terminals with colours. */
  readonly colour?: (item: T) => Parameters<Terminal['style']>[0] | undefined
  /** Whether the column shrinks when the terminal is too narrow. */
  readonly flexible?: true
}

const gap = '  '
const narrowest = 8

/**
 * Formats items as a table; without items it is the sentence `empty`, if there is one. Lines are cut to the width of the
 * terminal; in a file or pipe they are not cut.
 */
export function table<T>(
  terminal: Terminal,
  columns: readonly Column<T>[],
  items: readonly T[],
  empty?: string,
): string {
  if (items.length === 0 && empty !== undefined) return empty
  const cells = items.map((item) =>
    columns.map(({ cell }) => (typeof cell === 'string' ? text(item[cell]) : cell(item)).replace(/\s+/g, ' ')),
  )
  const widths = fit(
    columns,
    columns.map(({ title }, i) => Math.max(title.length, ...cells.map((row) => (row[i] as string).length))),
    terminal.columns,
  )
  const line = (texts: readonly string[], paint: (text: string, column: number) => string) =>
    texts
      .map((text, i) => {
        const width = widths[i] as number
        const cut = shorten(text, width)
        const space = ' '.repeat(Math.max(0, width - cut.length))
        if (columns[i]?.align === 'right') return `${space}${paint(cut, i)}`
        return i === columns.length - 1 ? paint(cut, i) : `${paint(cut, i)}${space}`
      })
      .join(gap)
      .trimEnd()
  const head = line(
    columns.map(({ title }) => title),
    (text) => terminal.style('dim', text),
  )
  const body = cells.map((row, at) =>
    line(row, (text, i) => {
      const colour = columns[i]?.colour?.(items[at] as T)
      return colour === undefined ? text : terminal.style(colour, text)
    }),
  )
  return [head, ...body].join('\n')
}

/** Formats the fields of one resource, a line each. Undefined values are left out. */
export function facts(terminal: Terminal, pairs: readonly (readonly [string, string | undefined])[]): string {
  const shown = pairs.filter((pair): pair is readonly [string, string] => pair[1] !== undefined)
  const width = Math.max(...shown.map(([name]) => name.length))
  return shown.map(([name, value]) => `${terminal.style('dim', name.padEnd(width))}${gap}${value}`).join('\n')
}

/** Cuts the text to at most `width` columns. */
export function shorten(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`
}

/** Shrinks the flexible columns, the widest first, until the table fits. */
function fit<T>(columns: readonly Column<T>[], widths: number[], limit: number | undefined): number[] {
  if (limit === undefined) return widths
  let excess = widths.reduce((sum, width) => sum + width, 0) + gap.length * (columns.length - 1) - limit
  while (excess > 0) {
    let widest = -1
    for (const [i, { flexible }] of columns.entries()) {
      const width = widths[i] as number
      if (flexible && width > narrowest && (widest < 0 || width > (widths[widest] as number))) widest = i
    }
    if (widest < 0) return widths
    widths[widest] = (widths[widest] as number) - 1
    excess--
  }
  return widths
}

/** A field as text on one line, so that data cannot imitate our own lines; '–' when it is empty. */
export function text(value: unknown): string {
  if (value === undefined || value === null || value === '') return '–'
  if (Array.isArray(value)) return value.length === 0 ? '–' : value.map(text).join(', ')
  return (typeof value === 'object' ? JSON.stringify(value) : String(value)).replace(/[\r\n\t]+/g, ' ')
}

/** An instant to the second, in UTC: `2026-11-15 09:40:12Z`. */
export function instant(value: unknown): string {
  return typeof value === 'string' ? `${value.slice(0, 19).replace('T', ' ')}Z` : text(value)
}

/** The time since an instant, in one unit: `5 min ago`. */
export function ago(value: unknown, now: number): string {
  if (typeof value !== 'string') return text(value)
  const ms = now - Date.parse(value)
  return ms < 60_000 ? 'just now' : `${age(ms)} ago`
}

/** The uid of a resource if it has one, else its id. */
export function nameOf({ uid, id }: Item): string {
  return text(uid ?? id)
}

/** The names of listed resources by id, to show in place of ids. */
export function namesById(items: readonly Item[]): ReadonlyMap<unknown, string> {
  return new Map(items.map((item) => [item.id, nameOf(item)]))
}

/** A number with separators: `12,345`. */
export function grouped(value: unknown): string {
  return withCommas(Number(value))
}

/** A number of waiting deliveries: `1,000+` when there may be more. */
export function waitingText({ total, isExact }: Item): string {
  return isExact === false ? `about ${grouped(roughly(Number(total)))}` : grouped(total)
}

/** A name of the API as words: `falling behind`. */
export function wordOf(name: unknown): string {
  return text(name).replaceAll('_', ' ')
}

/** The longest list that a command reads only to count it. */
export const countLimit = 1000

/** `1 message`, `2 messages`, and `1,000+ messages` when there are more. */
export function counted(count: number, noun: string, more = false): string {
  return `${grouped(count)}${more ? '+' : ''} ${noun}${count === 1 && !more ? '' : 's'}`
}
