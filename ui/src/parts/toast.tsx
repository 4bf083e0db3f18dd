import { signal } from '@preact/signals'
import { Icon } from './icon.tsx'

interface Toast {
  readonly id: number
  readonly tone: 'good' | 'bad'
  readonly text: string
}

const toasts = signal<readonly Toast[]>([])
let last = 0

/** Says that something was done, or why not. Good news leaves by itself. */
export function say(text: string, tone: Toast['tone'] = 'good'): void {
  const id = ++last
  toasts.value = [...toasts.value.slice(-3), { id, tone, text }]
  setTimeout(() => dismiss(id), tone === 'good' ? 4000 : 12_000)
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id)
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, tone, text }) => (
        <div key={id} class="toast" data-tone={tone}>
          <Icon name={tone === 'good' ? 'check' : 'warning'} />
          <span>{text}</span>
          <button type="button" class="plain" aria-label="Dismiss" onClick={() => dismiss(id)}>
            <Icon name="close" size={12} />
          </button>
        </div>
      ))}
    </div>
  )
}
