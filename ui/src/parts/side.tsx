import type { Signal } from '@preact/signals'
import { Icon } from './icon.tsx'

/** Whether the side is open; it matters only where the page is narrow. */
type Open = Signal<boolean>

/** Opens and closes the side. */
export function SideButton({ label, isOpen }: { label: string; isOpen: Open }) {
  return (
    <button
      type="button"
      class="plain"
      aria-label={label}
      aria-expanded={isOpen.value}
      onClick={() => {
        isOpen.value = !isOpen.value
      }}
    >
      <Icon name="menu" size={20} />
    </button>
  )
}

/** Covers the page while the side is open. A press closes the side. */
export function SideCover({ isOpen }: { isOpen: Open }) {
  if (!isOpen.value) return null
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions lint/a11y/useKeyWithClickEvents: the button closes it too.
    <div
      class="scrim"
      onClick={() => {
        isOpen.value = false
      }}
    />
  )
}
