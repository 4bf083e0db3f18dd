import type { Item } from '../../cli/client.ts'
import { text } from '../../cli/table.ts'

/** The state of an endpoint, with the reason why it was disabled. */
export function stateText({ state, disabledReason }: Item): string {
  const name = text(state).replaceAll('_', ' ')
  return state !== 'disabled' || disabledReason == null ? name : `${name} (${text(disabledReason)})`
}

export function stateColour({ state }: Item): 'green' | 'red' | 'yellow' {
  if (state === 'active') return 'green'
  return state === 'circuit_open' || state === 'failing' || state === 'disabled' ? 'red' : 'yellow'
}
