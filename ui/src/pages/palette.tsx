import { signal } from '@preact/signals'
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { call } from '../api/call.ts'
import type { FoundOut } from '../api/schema.ts'
import { Icon, type IconName } from '../parts/icon.tsx'
import { navigate } from '../router.ts'

const isOpen = signal(false)

export function openPalette(): void {
  isOpen.value = true
}

/** One place to go to. */
export interface Goal {
  readonly label: string
  readonly note?: string
  readonly to: string
  readonly icon: IconName
}

const pathOf: Readonly<Record<FoundOut['kind'], (found: FoundOut) => Pick<Goal, 'to' | 'icon'>>> = {
  application: ({ id }) => ({ to: `/app/${id}`, icon: 'applications' }),
  endpoint: ({ id, appId }) => ({ to: `/app/${appId}/endpoint/${id}`, icon: 'endpoints' }),
  message: ({ id, appId }) => ({ to: `/app/${appId}/msg/${id}`, icon: 'messages' }),
  schedule: ({ id, appId }) => ({ to: `/app/${appId}/schedule/${id}`, icon: 'schedules' }),
  source: ({ id, appId }) => ({ to: `/app/${appId}/source/${id}`, icon: 'sources' }),
  task: ({ id }) => ({ to: `/tasks/${id}`, icon: 'tasks' }),
}

/** The things of the server that a text names. */
async function findGoals(text: string): Promise<readonly Goal[]> {
  const { data } = await call('GET /find', { query: { text } })
  return data.map((found) => ({ label: found.name, note: `${found.kind} ${found.id}`, ...pathOf[found.kind](found) }))
}

/** Ctrl-K: goes to any page, id, uid or URL. */
export function Palette({ places }: { places: readonly Goal[] }) {
  // Before the page is painted: a key that is pressed as soon as the page shows is not lost.
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      isOpen.value = !isOpen.value
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  return isOpen.value ? <OpenPalette places={places} /> : null
}

function OpenPalette({ places }: { places: readonly Goal[] }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const list = useId()
  const [text, setText] = useState('')
  const [found, setFound] = useState<{ text: string; goals: readonly Goal[] }>({ text: '', goals: [] })
  const [at, setAt] = useState(0)

  useEffect(() => dialog.current?.showModal(), [])
  useEffect(() => {
    const wanted = text.trim()
    if (wanted.length < 2) return
    const timer = setTimeout(async () => {
      const goals = await findGoals(wanted).catch(() => [])
      setFound({ text: wanted, goals })
    }, 120)
    return () => clearTimeout(timer)
  }, [text])

  const wanted = text.trim().toLowerCase()
  const pages = places.filter(({ label }) => label.toLowerCase().includes(wanted))
  const isCurrent = found.text === text.trim()
  const goals = [...(wanted.length < 2 ? [] : found.goals), ...pages]
  const active = Math.min(at, goals.length - 1)

  function go(goal: Goal | undefined): void {
    if (goal === undefined) return
    isOpen.value = false
    navigate(goal.to)
  }

  function onKeyDown(event: KeyboardEvent): void {
    const move = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
    if (move !== 0) {
      event.preventDefault()
      setAt((active + move + goals.length) % Math.max(1, goals.length))
    } else if (event.key === 'Enter') {
      event.preventDefault()
      go(goals[active])
    }
  }

  return (
    <dialog
      ref={dialog}
      class="dialog palette"
      aria-label="Go to"
      onClose={() => {
        isOpen.value = false
      }}
      onMouseDown={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <div class="ask">
        <Icon name="search" />
        <input
          name="palette"
          type="text"
          role="combobox"
          aria-label="Go to any page, id, uid or URL"
          aria-expanded="true"
          aria-controls={list}
          aria-activedescendant={goals.length > 0 ? `${list}-${active}` : undefined}
          placeholder="Paste an id, uid or URL, or name a page"
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value)
            setAt(0)
          }}
          onKeyDown={onKeyDown}
        />
        <kbd>Esc</kbd>
      </div>
      <div id={list} role="listbox" aria-label="Places" class="goals">
        {goals.map(({ label, note, icon, to }, i) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys.
          <div
            key={to}
            id={`${list}-${i}`}
            role="option"
            aria-selected={i === active}
            onClick={() => go(goals[i])}
            onMouseMove={() => setAt(i)}
          >
            <Icon name={icon} />
            <span class="cut">{label}</span>
            {note && <span class="note cut">{note}</span>}
          </div>
        ))}
      </div>
      {goals.length === 0 && (
        <p class="nothing">{wanted.length < 2 || isCurrent ? 'Nothing here has this name.' : 'Looking…'}</p>
      )}
    </dialog>
  )
}
