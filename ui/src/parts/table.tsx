import type { ComponentChildren, VNode } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { navigate } from '../router.ts'
import { Icon } from './icon.tsx'

export interface Column<Row> {
  readonly name: string
  /** A track of the grid, such as `120px` or `minmax(0, 2fr)`. */
  readonly width: string
  readonly align?: 'end'
  /** On a narrow screen it is left out. */
  readonly narrow?: 'hide'
  cell(row: Row): ComponentChildren
  /** Given when the rows can be sorted by it. */
  readonly sort?: string
}

interface TableProps<Row> {
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  keyOf(row: Row): string
  /** The page that a press on the row opens. */
  hrefOf?(row: Row): string
  readonly rowHeight?: number
  /** The end of the rows came into view: load more. */
  onEnd?(): void
  readonly isLoading?: boolean
  /** Shown when there is no row. */
  readonly empty?: VNode
  readonly sortedBy?: string
  onSort?(sort: string): void
  readonly selected?: ReadonlySet<string>
  onSelect?(selected: ReadonlySet<string>): void
}

/**
 * A table of any length: only the rows near the window are in the document, and the window itself scrolls. Up and down
 * move between the rows, enter opens one.
 */
export function Table<Row>(props: TableProps<Row>) {
  const { label, columns, rows, keyOf, hrefOf, rowHeight = 44, onEnd, isLoading, empty, sortedBy, onSort } = props
  const { selected, onSelect } = props
  const body = useRef<HTMLDivElement>(null)
  const [[from, to], setRange] = useState<readonly [number, number]>([0, 40])

  useEffect(() => {
    const measure = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0
      const first = Math.max(0, Math.floor(-top / rowHeight) - 10)
      const last = Math.ceil((innerHeight - top) / rowHeight) + 10
      setRange(([a, b]) => (a === first && b === last ? [a, b] : [first, last]))
      if (last >= rows.length) onEnd?.()
    }
    measure()
    addEventListener('scroll', measure, { passive: true })
    addEventListener('resize', measure)
    return () => {
      removeEventListener('scroll', measure)
      removeEventListener('resize', measure)
    }
  }, [rows.length, rowHeight, onEnd])

  if (rows.length === 0) return isLoading ? <div class="loading" aria-busy="true" /> : (empty ?? null)

  const tracks = {
    '--tracks': tracksOf(columns, onSelect && '36px'),
    '--narrow-tracks': tracksOf(
      columns.filter(({ narrow }) => narrow === undefined),
      onSelect && '28px',
    ),
  }
  const shown = rows.slice(from, Math.min(to, rows.length))
  const allSelected = selected !== undefined && rows.every((row) => selected.has(keyOf(row)))
  const toggle = (key: string) => {
    const next = new Set(selected)
    if (!next.delete(key)) next.add(key)
    onSelect?.(next)
  }

  return (
    <div class="table" role="table" aria-label={label} aria-rowcount={rows.length + 1} onKeyDown={moveBetweenRows}>
      <div class="tr th" role="row" aria-rowindex={1} style={tracks}>
        {onSelect !== undefined && (
          <span role="columnheader" class="check">
            <input
              type="checkbox"
              aria-label="Select all"
              checked={allSelected}
              onChange={() => onSelect(allSelected ? new Set() : new Set(rows.map(keyOf)))}
            />
          </span>
        )}
        {columns.map(({ name, align, narrow, sort }) => (
          <span
            key={name}
            role="columnheader"
            data-align={align}
            data-narrow={narrow}
            aria-sort={sort !== undefined && sort === sortedBy ? 'descending' : undefined}
          >
            {sort === undefined || onSort === undefined ? (
              name
            ) : (
              <button type="button" class="plain sort" onClick={() => onSort(sort)}>
                {name}
                {sort === sortedBy && <Icon name="down" size={10} />}
              </button>
            )}
          </span>
        ))}
      </div>
      <div ref={body} role="rowgroup" class="tbody" style={{ height: `${rows.length * rowHeight}px` }}>
        {shown.map((row, i) => {
          const key = keyOf(row)
          const href = hrefOf?.(row)
          return (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the first cell is a link for the keyboard.
            <div
              key={key}
              class={href === undefined ? 'tr' : 'tr link'}
              role="row"
              aria-rowindex={from + i + 2}
              style={{ ...tracks, top: `${(from + i) * rowHeight}px`, height: `${rowHeight}px` }}
              onClick={(event) => {
                if (href === undefined || (event.target as Element).closest('a,button,input,label')) return
                if (getSelection()?.isCollapsed !== false) navigate(href)
              }}
            >
              {onSelect !== undefined && (
                <span role="cell" class="check">
                  <input
                    type="checkbox"
                    aria-label={`Select row ${from + i + 1}`}
                    checked={selected?.has(key)}
                    onChange={() => toggle(key)}
                  />
                </span>
              )}
              {columns.map(({ name, align, narrow, cell }, at) => (
                <span key={name} role="cell" data-align={align} data-narrow={narrow}>
                  {at === 0 && href !== undefined ? <a href={href}>{cell(row)}</a> : cell(row)}
                </span>
              ))}
            </div>
          )
        })}
      </div>
    </div>
  )
}

function tracksOf(columns: readonly { readonly width: string }[], check: string | undefined): string {
  return [...(check === undefined ? [] : [check]), ...columns.map(({ width }) => width)].join(' ')
}

function moveBetweenRows(event: KeyboardEvent): void {
  if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return
  const row = (event.target as Element).closest('.tr')
  if (row === null || (event.target as Element).matches('input:not([type=checkbox])')) return
  const next = event.key === 'ArrowDown' ? row.nextElementSibling : row.previousElementSibling
  const link = next?.querySelector<HTMLElement>('a, button, input')
  if (link == null) return
  event.preventDefault()
  link.focus()
}
