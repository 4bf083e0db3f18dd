import type { EpochMs } from '../domain/clock.ts'
import { defined } from '../domain/field.ts'
import type { Flow } from '../domain/flow.ts'
import type { AppRef } from '../features/access/store.ts'
import type { Application, SettingsChange } from '../features/applications/noun.ts'
import type { FoldedNameFacts } from '../features/doctor/facts.ts'
import type { Endpoint } from '../features/endpoints/rules.ts'
import type { Page, PageRequest } from './store.ts'

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

/** An application's secret of a region, by the region's name. The secret cannot be read back. */
export interface Region {
  readonly name: string
  readonly createdAt: EpochMs
}

/** Endpoints, each with its lane. */
export interface Endpoints {
  /**
   * Also makes the endpoint's lane. Rejects with AppError `conflict` when the uid is taken within the application, and
   * `quota_exceeded` when the application has `atMost` endpoints already.
   */
  createEndpoint(app: number, input: NewEndpoint, atMost?: number): Promise<Endpoint>
  /** By id or uid, within the application. */
  findEndpoint(app: number, ref: string): Promise<Endpoint | undefined>
  listEndpoints(app: number, page: PageRequest): Promise<Page<Endpoint>>
  /** The names of endpoints of an application, or of all with null, without those of operational webhooks. */
  nameEndpoints(app: number | null, page: PageRequest): Promise<Page<EndpointName>>
  /**
   * Changes the given fields. Disabling or pausing stops the lane and keeps its deliveries; undoing it releases the lane. A
   * change that depends on stored fields is a function, run inside the transaction: no other change comes in between.
   */
  updateEndpoint(app: number, endpoint: number, change: EndpointChange): Promise<Endpoint | undefined>
  /** The first endpoint of each of these applications; an application without endpoints is left out. */
  firstEndpoints(apps: readonly number[]): Promise<EndpointBrief[]>
  /** Endpoints of an application behind a key, in the order of their keys. */
  endpointBriefs(app: number, after: number, limit: number): Promise<EndpointBrief[]>
  /** Endpoints whose client certificate expires before an instant, the earliest first. */
  expiringCertificates(before: EpochMs, limit: number): Promise<ExpiringCertificate[]>
  /** Several endpoints by key, whatever their application; those that no longer exist are left out. */
  loadEndpoints(endpoints: readonly number[]): Promise<Endpoint[]>
  /** The same with deleted endpoints among them, for history. They have lost their secrets and headers. */
  recallEndpoints(endpoints: readonly number[]): Promise<Endpoint[]>
  /**
   * Answers whether the application had such an endpoint. It is gone for every caller at once; deliveries that waited end
   * as cancelled, a few at a time, by `sweepRemoved`.
   */
  deleteEndpoint(app: number, endpoint: number): Promise<boolean>
  /**
   * Counts attempts at an endpoint made after `after` and not after `until`, from the earliest on, until it has seen
   * enough of them; `reached` is the instant up to which it counted.
   */
  countAttempts(
    endpoint: number,
    after: EpochMs,
    until: EpochMs,
  ): Promise<{ readonly delivered: number; readonly failed: number; readonly reached: EpochMs }>
}

/** The few fields of an endpoint that a filter of applications looks at. */
export type EndpointBrief = Pick<Endpoint, 'app' | 'key' | 'disabled' | 'url'>

/** The little of an endpoint that a search reads. */
export interface EndpointName extends Pick<Endpoint, 'key' | 'id' | 'app' | 'uid' | 'url'> {
  readonly description: string
}

/** A thing whose name stands for another path in a URL. The id of an event type is its name; it has no application. */
export interface FoldedName extends Omit<FoldedNameFacts, 'appId'> {
  readonly app: number | null
}

export interface FoldedNames {
  /** Things of deleted applications are among them. */
  foldedNames(limit: number): Promise<FoldedName[]>
}

/** An endpoint whose client certificate expires soon, or has expired. */
export interface ExpiringCertificate extends Pick<Endpoint, 'key' | 'id' | 'app' | 'uid'> {
  readonly expiresAt: EpochMs
}

export type NewEndpoint = Omit<
  Endpoint,
  'key' | 'id' | 'app' | 'disabledReason' | 'flow' | 'damaged' | 'createdAt' | 'updatedAt'
> & {
  /** Missing fields stay, or have their defaults in a new endpoint. */
  readonly flow?: Partial<Flow>
}

/** The fields to change, or a function that makes them from the stored endpoint; it may throw AppError. */
export type EndpointChange = Partial<NewEndpoint> | ((before: Endpoint, now: EpochMs) => Partial<NewEndpoint>)

/** About how many attempts one call counts. */
export const attemptsPerCount = 5000

/** The endpoint with the given fields changed. Fields that are missing or undefined stay. */
export function changedEndpoint(before: Endpoint, change: EndpointChange, now: EpochMs): Endpoint {
  const { flow, ...rest } = defined(typeof change === 'function' ? change(before, now) : change)
  const { damaged: wasDamaged = [], ...whole } = before
  // A field that is set replaces its damaged record.
  const damaged = wasDamaged.filter((field) => rest[field] === undefined)
  const after: Endpoint = {
    ...whole,
    ...rest,
    ...(damaged.length > 0 && { damaged }),
    flow: { ...before.flow, ...flow },
  }
  if (after.disabled === before.disabled) return after
  return { ...after, disabledReason: after.disabled ? 'operator' : null }
}

/** Whether a change ends the rest of a lane: it changes how the receiver is judged, or in which order it gets messages. */
export function endsRest(before: Endpoint, after: Endpoint): boolean {
  const { circuit, circuitOrder, adaptive } = after.flow
  if (before.flow.circuit !== circuit || before.flow.circuitOrder !== circuitOrder) return true
  if (before.flow.adaptive !== adaptive || isEnabled(before, after)) return true
  return before.flow.order !== after.flow.order || before.flow.deadHead !== after.flow.deadHead
}

/** Whether the endpoint is enabled again: how its receiver did before is forgotten. */
export function isEnabled(before: Endpoint, after: Endpoint): boolean {
  return before.disabled && !after.disabled
}
