import type { SettingsChange } from '../domain/application-fields.ts'
import type { EpochMs } from '../domain/clock.ts'
import type { Application } from '../domain/endpoint.ts'
import type { AppRef } from './access.ts'
import type { Page, PageRequest } from './page.ts'

/** Applications, and their secrets of regions, which pseudonyms are made with. */
export interface Applications {
  /** Rejects with AppError `conflict` when the uid is taken. */
  createApplication(input: NewApplication): Promise<Application>
  /** By id or uid. */
  findApplication(ref: string): Promise<Application | undefined>
  /** The ids and uids of several applications by key; those that no longer exist are left out. */
  applicationRefs(apps: readonly number[]): Promise<ReadonlyMap<number, AppRef>>
  listApplications(page: PageRequest): Promise<Page<Application>>
  /** Changes the given fields and settings, and makes publishers look the application up again. */
  updateApplication(app: number, change: Partial<NewApplication>): Promise<Application | undefined>
  /**
   * Answers whether there was such an application. It is gone for every caller at once. Its first few hundred endpoints are
   * stopped here, and the rest by `sweepRemoved`.
   */
  deleteApplication(app: number): Promise<boolean>
  /** How the application's portal looks; undefined until it is set. */
  findPortalLook(app: number): Promise<PortalLook | undefined>
  /** Sets how the portal looks. Answers whether there is such an application. */
  setPortalLook(app: number, look: PortalLook): Promise<boolean>
  /** Rejects with AppError `conflict` when the name is taken, `not_found` when there is no such application. */
  createRegion(app: number, name: string, secret: string): Promise<Region>
  /** By name, in the order of its bytes. */
  listRegions(app: number, page: PageRequest<string>): Promise<Page<Region>>
  /** Answers whether there was one. Rejects with AppError `conflict` while an endpoint in it gets pseudonyms. */
  deleteRegion(app: number, name: string): Promise<boolean>
  /**
   * Moves up to `limit` lanes of an application whose region changed. Doing it twice is harmless; any process may do so at
   * any time. Answers whether there may be more to move.
   */
  moveLanes(limit: number): Promise<{ readonly more: boolean }>
}

export type NewApplication = Pick<Application, 'name' | 'uid' | 'throttleRate' | 'metadata'> & {
  readonly dedupeSeconds?: number | null
  readonly settings?: SettingsChange
}

/** The look of an application's portal; null leaves a part as it is for all. */
export interface PortalLook {
  readonly name: string | null
  /** A `data:` URL of an image. */
  readonly logo: string | null
  /** `#rrggbb`. */
  readonly color: string | null
}

/** An application's secret of a region, by the region's name. The secret cannot be read back. */
export interface Region {
  readonly name: string
  readonly createdAt: EpochMs
}
