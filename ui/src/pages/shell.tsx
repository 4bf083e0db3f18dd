import { signal } from '@preact/signals'
import { type ComponentChildren, Fragment } from 'preact'
import { useEffect } from 'preact/hooks'
import { silentSince } from '../api/heard.ts'
import { ConfirmDialog } from '../parts/dialog.tsx'
import { Icon, Logo } from '../parts/icon.tsx'
import { SideButton, SideCover } from '../parts/side.tsx'
import { Silence } from '../parts/silence.tsx'
import { chosenTheme, theme } from '../parts/theme.ts'
import { Toasts } from '../parts/toast.tsx'
import { path } from '../router.ts'
import { session, signOut } from '../session.ts'
import { type Goal, openPalette, Palette } from './palette.tsx'
import { SideViews } from './views.tsx'

type Places = readonly (readonly Goal[])[]

const isOpen = signal(false)

/** The frame of every page: the side with its places, the palette, dialogs and toasts. */
export function Shell({ places, children }: { places: Places; children: ComponentChildren }) {
  const at = path.value
  useEffect(() => {
    isOpen.value = false
  }, [at])
  return (
    <div class="shell">
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="topbar">
        <SideButton label="Menu" isOpen={isOpen} />
        <a class="brand" href="/">
          <Logo /> Sluice
        </a>
        <button type="button" class="plain" aria-label="Search" onClick={openPalette}>
          <Icon name="search" size={20} />
        </button>
      </header>
      <Side at={at} places={places} />
      <SideCover isOpen={isOpen} />
      <main id="main" tabIndex={-1} data-silent={silentSince.value !== undefined}>
        <Silence />
        {children}
      </main>
      <Palette places={places.flat()} />
      <ConfirmDialog />
      <Toasts />
    </div>
  )
}

function Side({ at, places }: { at: string; places: Places }) {
  const here = session.value
  return (
    <nav class={isOpen.value ? 'side open' : 'side'} aria-label="Main">
      <a class="brand" href="/">
        <Logo /> Sluice
      </a>
      <button type="button" class="find" onClick={openPalette}>
        <Icon name="search" size={14} />
        <span class="grow">Go to…</span>
        <kbd>{navigator.platform.startsWith('Mac') ? '⌘' : 'Ctrl '}K</kbd>
      </button>
      {places.map((group, i) => (
        <Fragment key={group[0]?.to}>
          {i === 1 && <SideViews />}
          <ul>
            {group.map(({ label, to, icon }) => (
              <li key={to}>
                <a href={to} aria-current={isWithin(at, to) ? 'page' : undefined}>
                  <Icon name={icon} />
                  {label}
                </a>
              </li>
            ))}
          </ul>
        </Fragment>
      ))}
      <div class="foot">
        <button
          type="button"
          class="plain"
          onClick={() => {
            chosenTheme.value = theme.value === 'dark' ? 'light' : 'dark'
          }}
        >
          <Icon name={theme.value === 'dark' ? 'sun' : 'moon'} />
          {theme.value === 'dark' ? 'Light' : 'Dark'}
        </button>
        <a href="/docs" target="_blank" rel="noreferrer">
          <Icon name="audit" />
          Documentation
        </a>
        {here.state === 'in' && (
          <button type="button" class="plain" onClick={() => void signOut()}>
            <Icon name="out" />
            <span class="cut">Sign out{here.name === null ? '' : ` (${here.name})`}</span>
          </button>
        )}
      </div>
    </nav>
  )
}

/** The places of things within an application; its messages belong to the applications. */
const placeOf: Readonly<Record<string, string>> = { endpoint: '/endpoints', schedule: '/schedules', source: '/sources' }

/** A page below a place belongs to it: an endpoint to the endpoints, a message to the applications. */
function isWithin(at: string, to: string): boolean {
  if (to === '/') return at === '/'
  if (at === to || at.startsWith(`${to}/`)) return true
  if (at.startsWith('/app/')) {
    const [, , , kind] = at.split('/')
    return to === (placeOf[kind ?? ''] ?? '/applications')
  }
  return false
}
