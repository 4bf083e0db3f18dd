import { effect, signal } from '@preact/signals'

/** Light, dark, or as the system has it. */
export type Theme = 'system' | 'light' | 'dark'

const key = 'sluice.theme'

/** The reader's choice. This browser keeps it. */
export const chosenTheme = signal<Theme>(read())

const systemIsDark = signal(matchMedia('(prefers-color-scheme: dark)').matches)
/** The theme of the page. Charts draw with it. */
export const theme = signal<'light' | 'dark'>('light')

export function startTheme(): void {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', ({ matches }) => {
    systemIsDark.value = matches
  })
  effect(() => {
    const chosen = chosenTheme.value
    document.documentElement.dataset.theme = chosen
    theme.value = chosen === 'system' ? (systemIsDark.value ? 'dark' : 'light') : chosen
    try {
      if (chosen === 'system') localStorage.removeItem(key)
      else localStorage.setItem(key, chosen)
    } catch {
      // Without storage the choice lasts as long as the page.
    }
  })
}

function read(): Theme {
  try {
    const stored = localStorage.getItem(key)
    return stored === 'light' || stored === 'dark' ? stored : 'system'
  } catch {
    return 'system'
  }
}
