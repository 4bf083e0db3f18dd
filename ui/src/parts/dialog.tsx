import { signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { Button } from './button.tsx'
import { Icon } from './icon.tsx'

interface DialogProps {
  readonly title: string
  readonly children: ComponentChildren
  readonly wide?: boolean
  onClose(): void
}

/** A modal dialog while it is rendered. Escape, its cross and a press outside close it. */
export function Dialog({ title, children, wide, onClose }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const heading = useId()
  useEffect(() => {
    dialog.current?.showModal()
    // The cross comes first in the document; the reader wants to write.
    dialog.current?.querySelector<HTMLElement>('input, select, textarea, footer button')?.focus()
  }, [])
  return (
    <dialog
      ref={dialog}
      class={wide ? 'dialog wide' : 'dialog'}
      aria-labelledby={heading}
      // The event comes some time after the dialog was closed; another one may have taken its place.
      onClose={() => dialog.current !== null && onClose()}
      onMouseDown={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <header>
        <h2 id={heading}>{title}</h2>
        <button type="button" class="plain" aria-label="Close" onClick={() => dialog.current?.close()}>
          <Icon name="close" />
        </button>
      </header>
      {children}
    </dialog>
  )
}

interface Question {
  readonly title: string
  readonly text: ComponentChildren
  /** The label of the button that goes on: a verb. */
  readonly action: string
  readonly kind?: 'primary' | 'danger'
  /** A text that must be typed first, for what cannot be undone. */
  readonly typed?: string
}

const question = signal<(Question & { answer(go: boolean): void }) | undefined>(undefined)

/** Asks before something that matters; answers whether to go on. */
export function confirm(asked: Question): Promise<boolean> {
  return new Promise((resolve) => {
    question.value = {
      ...asked,
      answer(go) {
        question.value = undefined
        resolve(go)
      },
    }
  })
}

export function ConfirmDialog() {
  const asked = question.value
  return asked === undefined ? null : <AskedDialog asked={asked} />
}

function AskedDialog({ asked }: { asked: Question & { answer(go: boolean): void } }) {
  const [typed, setTyped] = useState('')
  const { title, text, action, kind = 'primary', typed: wanted } = asked
  return (
    <Dialog title={title} onClose={() => asked.answer(false)}>
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault()
          asked.answer(true)
        }}
      >
        <div class="body">
          <p>{text}</p>
          {wanted !== undefined && (
            <label class="field">
              <span class="label">
                Type <b>{wanted}</b> to go on
              </span>
              <input
                name="typed"
                autocomplete="off"
                value={typed}
                onInput={(event) => setTyped(event.currentTarget.value)}
              />
            </label>
          )}
        </div>
        <footer>
          <Button onPress={() => asked.answer(false)}>Cancel</Button>
          <Button type="submit" kind={kind} disabled={wanted !== undefined && typed !== wanted}>
            {action}
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}
