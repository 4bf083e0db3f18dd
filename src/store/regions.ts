import { AppError } from '../domain/app-error.ts'
import type { EpochMs } from '../domain/clock.ts'
import type { Page, PageRequest } from './page.ts'
import type { StoreContext } from './store.ts'
import { openValue, SealError, type SealedPlace, sealValue, type Vault } from './vault.ts'

/** The secrets that pseudonyms are made with. An endpoint names one by its region; it cannot be read back. */
export interface Regions {
  /** Rejects with AppError `conflict` when the name is taken, `not_found` when there is no such application. */
  createRegion(app: number, name: string, secret: string): Promise<Region>
  /** By name, in the order of its bytes. */
  listRegions(app: number, page: PageRequest<string>): Promise<Page<Region>>
  /** Answers whether there was one. Rejects with AppError `conflict` while an endpoint is in it. */
  deleteRegion(app: number, name: string): Promise<boolean>
}

export interface Region {
  readonly name: string
  readonly createdAt: EpochMs
}

/** A region's secret as it is stored. */
export function sealRegion(vault: Vault, secret: string, place: RegionPlace): string {
  return sealValue(vault, { secret }, sealedPlace(place)) as string
}

/** The secret behind what is stored; null, and a word in the log, when it does not open. */
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
