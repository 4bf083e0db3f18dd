import { AppError } from '../../domain/app-error.ts'
import type { StoreContext } from '../store.ts'
import { openValue, SealError, type SealedPlace, sealValue, type Vault } from '../vault.ts'

/** A region's secret as it is stored. */
export function sealRegion(vault: Vault, secret: string, place: RegionPlace): string {
  return sealValue(vault, { secret }, sealedPlace(place)) as string
}

/** The secret in a stored record; null, and a line in the log, when it does not open. */
export function openRegion(
  vault: Vault,
  stored: string,
  place: RegionPlace,
  log: ((sentence: string) => void) | undefined,
): string | null {
  try {
    return openValue<{ secret: string }>(vault, stored, sealedPlace(place)).secret
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    log?.(`nothing can be pseudonymized in the region ${place.name}: ${error.message}`)
    return null
  }
}

/** The secrets of an application's regions, by name. */
export function openRegions(
  rows: readonly { readonly name: string; readonly secret: string }[],
  app: number,
  { vault, log }: Pick<StoreContext, 'vault' | 'log'>,
): ReadonlyMap<string, string | null> {
  return new Map(rows.map(({ name, secret }) => [name, openRegion(vault, secret, { app, name }, log)]))
}

export const noRegions: ReadonlyMap<string, string | null> = new Map()

export interface RegionPlace {
  readonly app: number
  readonly name: string
}

/** No endpoint has this key. */
export function sealedPlace({ app, name }: RegionPlace): SealedPlace {
  return { app, endpoint: 0, field: `region ${name}` }
}

/** An endpoint cannot be in a region that its application does not have. */
export function unknownRegion(name: string): AppError {
  const field = { at: ['body', 'region'], message: `there is no region ${name} in this application`, type: 'region' }
  return new AppError('validation', 'The region does not exist.', [field])
}
