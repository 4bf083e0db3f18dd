import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import type { ApiError } from '../api/call.ts'
import { Button } from './button.tsx'

/** The name of the program in the title of the window; the portal has its own. */
export const programName = signal('Sluice')

interface PageProps {
  readonly title: string
  /** The way back up: label and path. */
  readonly up?: readonly (readonly [label: string, to: string])[]
  /** Beside the title. */
  readonly note?: ComponentChildren
  readonly actions?: ComponentChildren
  readonly children: ComponentChildren
}

/** A page: the way up, a heading with what can be done, and the rest. */
export function Page({ title, up = [], note, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · ${programName.value}`
  }, [title, programName.value])
  return (
    <div class="page">
      {up.length > 0 && (
        <nav class="up" aria-label="Breadcrumb">
          {up.map(([label, to]) => (
            <a key={to} href={to}>
              {label}
            </a>
          ))}
        </nav>
      )}
      <header class="head">
        <h1>{title}</h1>
        {note}
        {actions !== undefined && <div class="actions">{actions}</div>}
      </header>
      {children}
    </div>
  )
}

interface SectionProps {
  readonly title: string
  readonly note?: ComponentChildren
  readonly actions?: ComponentChildren
  readonly children: ComponentChildren
  /** Without the frame around it. */
  readonly bare?: boolean
}

export function Section({ title, note, actions, children, bare }: SectionProps) {
  return (
    <section class={bare ? 'section' : 'section card'}>
      <header>
        <h2>{title}</h2>
        {note !== undefined && <span class="note">{note}</span>}
        {actions !== undefined && <div class="actions">{actions}</div>}
      </header>
      {children}
    </section>
  )
}

/** An empty list says what would be here, and what to do. */
export function Empty({
  title,
  children,
  action,
}: {
  title: string
  children?: ComponentChildren
  action?: ComponentChildren
}) {
  return (
    <div class="empty">
      <p class="title">{title}</p>
      {children !== undefined && <p>{children}</p>}
      {action}
    </div>
  )
}

export function Failure({ error, retry }: { error: ApiError; retry?: () => unknown }) {
  return (
    <div class="empty" role="alert">
      <p class="title">{error.status === 404 ? 'Not found' : 'This could not be loaded'}</p>
      <p>{error.message}</p>
      {retry && (
        <Button icon="refresh" onPress={retry}>
          Try again
        </Button>
      )}
    </div>
  )
}

/** Shown in the place of what is being fetched; appears only when that takes a while. */
export function Loading() {
  return (
    <div class="loading" aria-busy="true">
      <span class="visually-hidden">Loading</span>
    </div>
  )
}

/** Facts in two columns: name and value. */
export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

/** One figure with its name. `tone` only when the figure asks for attention. */
export function Stat({
  name,
  value,
  note,
  tone,
  href,
}: {
  name: string
  value: ComponentChildren
  note?: ComponentChildren
  tone?: 'wait' | 'bad' | undefined
  href?: string
}) {
  const inside = (
    <>
      <span class="name">{name}</span>
      <span class="value" data-tone={tone}>
        {value}
      </span>
      {note !== undefined && <span class="note">{note}</span>}
    </>
  )
  return href === undefined ? (
    <div class="stat">{inside}</div>
  ) : (
    <a class="stat" href={href}>
      {inside}
    </a>
  )
}

interface SegmentedProps<Value extends string> {
  readonly label: string
  readonly value: Value
  readonly choices: readonly (readonly [value: Value, label: string])[]
  onChange(value: Value): void
}

/** One of a few choices, all of which are shown. */
export function Segmented<Value extends string>({ label, value, choices, onChange }: SegmentedProps<Value>) {
  return (
    <div class="segmented" role="group" aria-label={label}>
      {choices.map(([choice, text]) => (
        <button key={choice} type="button" aria-pressed={choice === value} onClick={() => onChange(choice)}>
          {text}
        </button>
      ))}
    </div>
  )
}

export function SearchField({
  value,
  label,
  onChange,
}: {
  value: string
  label: string
  onChange(value: string): void
}) {
  return (
    <input
      class="search"
      type="search"
      name="search"
      placeholder={label}
      aria-label={label}
      value={value}
      onInput={(event) => onChange(event.currentTarget.value)}
    />
  )
}
