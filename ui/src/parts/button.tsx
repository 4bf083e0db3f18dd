import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { toApiError } from '../api/ask.ts'
import { Icon, type IconName } from './icon.tsx'
import { say } from './toast.tsx'

interface ButtonProps {
  readonly children?: ComponentChildren
  readonly icon?: IconName
  readonly kind?: 'primary' | 'danger' | 'plain'
  readonly type?: 'button' | 'submit'
  /** For a button with an icon only. */
  readonly label?: string
  readonly disabled?: boolean
  readonly popovertarget?: string
  /** While it runs, the button is busy; when it fails, a toast says why. */
  readonly onPress?: () => unknown
}

export function Button({
  children,
  icon,
  kind,
  type = 'button',
  label,
  disabled,
  onPress,
  popovertarget,
}: ButtonProps) {
  const [isBusy, setBusy] = useState(false)
  async function press(): Promise<void> {
    if (onPress === undefined) return
    setBusy(true)
    try {
      await onPress()
    } catch (error) {
      say(toApiError(error).message, 'bad')
    } finally {
      setBusy(false)
    }
  }
  return (
    <button
      type={type}
      class={`button ${kind ?? ''} ${children === undefined ? 'square' : ''}`}
      disabled={disabled || isBusy}
      aria-busy={isBusy}
      aria-label={label}
      title={label}
      popovertarget={popovertarget}
      onClick={onPress === undefined ? undefined : press}
    >
      {icon && <Icon name={icon} size={14} />}
      {children}
    </button>
  )
}

/** Copies a text. Outside https and loopback, browsers have no clipboard, so a hidden field is copied from. */
export async function copy(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) {
    try {
      return await navigator.clipboard.writeText(text)
    } catch {
      // The browser forbids it here; the old way may still work.
    }
  }
  const field = document.createElement('textarea')
  field.value = text
  document.body.append(field)
  field.select()
  document.execCommand('copy')
  field.remove()
}

export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [isDone, setDone] = useState(false)
  return (
    <button
      type="button"
      class="plain copy"
      aria-label={isDone ? 'Copied' : label}
      title={label}
      onClick={async (event) => {
        event.stopPropagation()
        event.preventDefault()
        await copy(text)
        setDone(true)
        setTimeout(() => setDone(false), 1500)
      }}
    >
      <Icon name={isDone ? 'check' : 'copy'} size={13} />
    </button>
  )
}

/** An id with a button that copies it. */
export function Id({ id }: { id: string }) {
  return (
    <span class="id">
      <code>{id}</code>
      <CopyButton text={id} label={`Copy ${id}`} />
    </span>
  )
}
