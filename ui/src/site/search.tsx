import { useEffect, useRef, useState } from 'preact/hooks'
import { type Entry, find, type Index, indexOf } from './find.ts'

/** The index is made in the browser, at the first use of the search. */
let index: Promise<Index> | undefined

function loadIndex(): Promise<Index> {
  index ??= fetch('/docs/search.json').then(async (answer) => indexOf((await answer.json()) as Entry[]))
  return index
}

/** The search of the documentation: a field, and links below it. `/` goes to the field, and the arrows to the links. */
export function Search() {
  const [text, setText] = useState('')
  const [found, setFound] = useState<readonly Entry[]>()
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const focus = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement | null
      if (event.key !== '/' || event.ctrlKey || event.metaKey || target?.closest('input, textarea, select')) return
      event.preventDefault()
      box.current?.querySelector('input')?.focus()
    }
    addEventListener('keydown', focus)
    return () => removeEventListener('keydown', focus)
  }, [])
  useEffect(() => {
    let isCurrent = true
    if (text.trim() === '') setFound(undefined)
    else void loadIndex().then((made) => isCurrent && setFound(find(made, text)))
    return () => {
      isCurrent = false
    }
  }, [text])
  const step = (by: number) => {
    const places = [...(box.current?.querySelectorAll<HTMLElement>('input, .found a') ?? [])]
    const now = places.indexOf(document.activeElement as HTMLElement)
    places[(now + by + places.length) % places.length]?.focus()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape') setText('')
    else if (event.key === 'ArrowDown') step(1)
    else if (event.key === 'ArrowUp') step(-1)
    else return
    event.preventDefault()
  }
  return (
    <search class="search-box" ref={box} onKeyDown={onKeyDown}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          box.current?.querySelector<HTMLElement>('.found a')?.click()
        }}
      >
        <input
          type="search"
          aria-label="Search the documentation"
          placeholder="Search the documentation"
          value={text}
          onFocus={() => void loadIndex()}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <kbd>/</kbd>
      </form>
      {found !== undefined && (
        <div class="found">
          <p role="status">{found.length === 0 ? 'No page has these words.' : `${found.length} found`}</p>
          <ul>
            {found.map((entry) => (
              <li key={entry.address}>
                <a href={entry.address} onClick={() => setText('')}>
                  <strong>
                    {entry.title}
                    {entry.heading === '' ? '' : ` › ${entry.heading}`}
                  </strong>
                  <span>{excerpt(entry.text, text)}</span>
                </a>
              </li>
            ))}
          </ul>
        </div>
      )}
    </search>
  )
}

/** The words around the first hit. */
function excerpt(text: string, words: string): string {
  const plain = text.replace(/\s+/g, ' ')
  const [first = ''] = words.trim().toLowerCase().split(/\s+/)
  const hit = plain.toLowerCase().indexOf(first)
  const from = Math.max(0, hit - 50)
  return `${from > 0 ? '…' : ''}${plain.slice(from, from + 140)}${from + 140 < plain.length ? '…' : ''}`
}
