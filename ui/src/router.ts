import { computed, signal } from '@preact/signals'
import type { ComponentType } from 'preact'

/** The address of the page that is shown. Links are plain `<a href>`: a click on one of ours is taken here. */
const address = signal(currentAddress())

export const path = computed(() => address.value.split('?')[0] ?? '/')
export const query = computed(() => new URLSearchParams(address.value.split('?')[1] ?? ''))

/** Paths that the dashboard does not show: the server answers them itself, or with the portal. */
const elsewhere = /^\/(api|docs|portal|metrics|assets)(\/|$)/

function currentAddress(): string {
  return location.pathname + location.search
}

export function navigate(to: string, how: 'push' | 'replace' = 'push'): void {
  if (to === currentAddress()) return
  if (how === 'push') history.pushState(null, '', to)
  else history.replaceState(null, '', to)
  address.value = to
  if (how === 'push') scrollTo(0, 0)
}

/** Changes parameters of the address, which keep a page's filters; undefined and '' remove one. */
export function setQuery(change: Readonly<Record<string, string | undefined>>): void {
  const next = new URLSearchParams(query.value)
  for (const [name, value] of Object.entries(change)) {
    if (value === undefined || value === '') next.delete(name)
    else next.set(name, value)
  }
  const text = next.toString()
  navigate(path.value + (text === '' ? '' : `?${text}`), 'replace')
}

/** `isOwn` says which paths are pages of this program. */
export function startRouter(isOwn = (to: string) => !elsewhere.test(to)): void {
  addEventListener('popstate', () => {
    address.value = currentAddress()
  })
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return
    const link = (event.target as Element | null)?.closest?.('a')
    const to = link?.getAttribute('href')
    if (!to?.startsWith('/') || link?.target === '_blank' || link?.hasAttribute('download') || !isOwn(to)) return
    event.preventDefault()
    navigate(to)
  })
}

export type Params = Readonly<Record<string, string>>

export interface Route {
  /** Such as `/app/:app/endpoint/:endpoint`. */
  readonly path: string
  readonly page: ComponentType<{ params: Params }>
}

/** The first route that fits the path, with the parts that it names. */
export function matchRoute(routes: readonly Route[], at: string): { route: Route; params: Params } | undefined {
  const parts = at.split('/').filter(Boolean)
  for (const route of routes) {
    const names = route.path.split('/').filter(Boolean)
    if (names.length !== parts.length) continue
    const params: Record<string, string> = {}
    const fits = names.every((name, i) => {
      const part = decoded(parts[i] ?? '')
      if (!name.startsWith(':')) return name === part
      params[name.slice(1)] = part
      return true
    })
    if (fits) return { route, params }
  }
  return undefined
}

/** A path that is not well encoded names nothing, and is shown as it is. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
