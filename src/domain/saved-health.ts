export type CircuitState = 'closed' | 'open' | 'half_open'

/** The part of a receiver's health that outlives the owner of its lane. All instants are durations from its saving. */
export interface SavedHealth {
  readonly circuit?: CircuitState
  readonly manual?: boolean
  readonly openMs?: number
  readonly openings?: number
  readonly calmMs?: number
  readonly failures?: number
  readonly failingMs?: number
  /** Rate, full rate, and how long the whole climb takes. */
  readonly pace?: readonly [rate: number, full: number, climbMs: number]
  /** The number of the last command that was carried out; the name is part of the stored format. */
  readonly order?: number
}

/** The saved health; undefined when it cannot be read, so that the receiver counts as new. */
export function readHealth(text: string): SavedHealth | undefined {
  try {
    return (JSON.parse(text) as SavedHealth | null) ?? undefined
  } catch {
    return undefined
  }
}

/** The health as text; null when the next owner needs to know nothing. */
export function writeHealth(saved: SavedHealth): string | null {
  return Object.keys(saved).length === 0 ? null : JSON.stringify(saved)
}
