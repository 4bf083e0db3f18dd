export type CircuitState = 'closed' | 'open' | 'half_open'

/** What must outlive the owner of a lane of how its receiver does. All instants are durations from its saving. */
export interface SavedHealth {
  readonly circuit?: CircuitState
  readonly manual?: boolean
  readonly openMs?: number
  readonly openings?: number
  readonly calmMs?: number
  readonly failures?: number
  readonly failingMs?: number
  /** Rate, full rate, and how long all of the climb takes. */
  readonly pace?: readonly [rate: number, full: number, climbMs: number]
  readonly order?: number
}

/** What was saved; undefined when it cannot be read: that is a receiver nobody knows anything of. */
export function readHealth(text: string): SavedHealth | undefined {
  try {
    return (JSON.parse(text) as SavedHealth | null) ?? undefined
  } catch {
    return undefined
  }
}

/** As it is stored: null when there is nothing that anyone must know. */
export function writeHealth(saved: SavedHealth): string | null {
  return Object.keys(saved).length === 0 ? null : JSON.stringify(saved)
}
