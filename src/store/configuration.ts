import type { EpochMs } from '../domain/clock.ts'
import type { Application, ApplicationSettings, Endpoint } from '../domain/endpoint.ts'
import type { Flow } from '../domain/flow.ts'
import type { Page, PageRequest } from './page.ts'

/** Applications and their endpoints. */
export interface Configuration extends Applications, Endpoints {}

export interface Applications {
  /** Rejects with AppError `conflict` when the uid is taken. */
  createApplication(input: NewApplication): Promise<Application>
  /** By id or uid. */
  findApplication(ref: string): Promise<Application | undefined>
  listApplications(page: PageRequest): Promise<Page<Application>>
  /** Changes the given fields, and makes publishers look the application up again. */
  updateApplication(app: number, change: Partial<NewApplication>): Promise<Application | undefined>
}

export interface Endpoints {
  /**
   * Also makes the endpoint's lane. Rejects with AppError `conflict` when the uid is taken within the application, and
   * `quota_exceeded` when the application has `atMost` endpoints already.
   */
  createEndpoint(app: number, input: NewEndpoint, atMost?: number): Promise<Endpoint>
  /** By id or uid, within the application. */
  findEndpoint(app: number, ref: string): Promise<Endpoint | undefined>
  listEndpoints(app: number, page: PageRequest): Promise<Page<Endpoint>>
  /**
   * Changes the given fields. Disabling or pausing stops the lane and keeps what waits; undoing it releases the lane. A
   * change that depends on what is stored is a function, run inside the transaction: nobody else's change comes between.
   */
  updateEndpoint(app: number, endpoint: number, change: EndpointChange): Promise<Endpoint | undefined>
  /** Several endpoints by key, whatever their application; those that no longer exist are left out. */
  loadEndpoints(endpoints: readonly number[]): Promise<Endpoint[]>
}

export type NewApplication = Pick<Application, 'name' | 'uid' | 'throttleRate' | 'metadata'> & {
  readonly dedupeSeconds?: number | null
  readonly settings?: ApplicationSettings
}
export type NewEndpoint = Omit<
  Endpoint,
  'key' | 'id' | 'app' | 'disabledReason' | 'flow' | 'damaged' | 'createdAt' | 'updatedAt'
> & {
  /** What is missing is as before, or as by default. */
  readonly flow?: Partial<Flow>
}

/** What to change of an endpoint, or how to find that out from what is stored at that instant; it may throw AppError. */
export type EndpointChange = Partial<NewEndpoint> | ((before: Endpoint, now: EpochMs) => Partial<NewEndpoint>)
