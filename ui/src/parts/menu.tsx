import { useId, useRef } from 'preact/hooks'
import { Button } from './button.tsx'
import { Icon, type IconName } from './icon.tsx'

export interface MenuItem {
  readonly label: string
  readonly icon?: IconName
  readonly tone?: 'bad'
  /** A line above it. */
  readonly apart?: boolean
  onPress(): unknown
}

/** A button that opens a list of actions. */
export function Menu({ label, items }: { label: string; items: readonly MenuItem[] }) {
  const id = useId()
  const menu = useRef<HTMLDivElement>(null)
  const place = useRef<HTMLSpanElement>(null)
  if (items.length === 0) return null

  function onToggle(event: { readonly newState: string }): void {
    const button = place.current?.querySelector('button')
    if (event.newState !== 'open' || menu.current === null || button == null) return
    const { bottom, right } = button.getBoundingClientRect()
    menu.current.style.top = `${bottom}px`
    menu.current.style.left = `${Math.max(8, right - menu.current.offsetWidth)}px`
    menu.current.querySelector('button')?.focus()
  }

  function onKeyDown(event: KeyboardEvent): void {
    const move = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
    if (move === 0) return
    event.preventDefault()
    const buttons = [...(menu.current?.querySelectorAll('button') ?? [])]
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement)
    buttons[(at + move + buttons.length) % buttons.length]?.focus()
  }

  return (
    <span ref={place}>
      <Button icon="more" label={label} popovertarget={id} />
      {/* biome-ignore lint/a11y/noStaticElementInteractions: it has the keys of the buttons in it. */}
      <div ref={menu} id={id} class="menu" popover="auto" onToggle={onToggle} onKeyDown={onKeyDown}>
        {items.map(({ label: text, icon, tone, apart, onPress }) => (
          <div key={text}>
            {apart && <hr />}
            <button
              type="button"
              class={tone}
              onClick={() => {
                menu.current?.hidePopover()
                void onPress()
              }}
            >
              {icon && <Icon name={icon} size={14} />}
              {text}
            </button>
          </div>
        ))}
      </div>
    </span>
  )
}
