import type { Static } from 'typebox'
import type { Request } from '../operations/in-process.ts'
import type { ApplicationIn, ApplicationPatch, toApplicationOut } from '../operations/nouns/application-schema.ts'
import type { EndpointIn, EndpointPatch, toEndpointOut } from '../operations/nouns/endpoint-schema.ts'
import type {
  ScheduleFields,
  ScheduleOut as ScheduleOutSchema,
  SchedulePatchFields,
} from '../operations/nouns/schedule-schema.ts'

import type { SourceProviderOut as SourceProviderOutSchema } from '../operations/nouns/source-provider.ts'
import type {
  ArrivalSampleOut as ArrivalSampleOutSchema,
  SourceCreatedOut as SourceCreatedOutSchema,
  SourceIn,
  SourceOut as SourceOutSchema,
  SourcePatch,
  SourceSummaryOut as SourceSummaryOutSchema,
  SourceTestIn as SourceTestInSchema,
  SourceTestOut as SourceTestOutSchema,
} from '../operations/nouns/source-schema.ts'

/** An application as the API shows it. */
export type ApplicationOut = ReturnType<typeof toApplicationOut>
/** An endpoint as the API shows it. */
export type EndpointOut = ReturnType<typeof toEndpointOut>

/** The part of a list to get. */
export interface ListOptions {
  readonly limit?: number | undefined
  readonly iterator?: string | null | undefined
  readonly order?: 'ascending' | 'descending' | undefined
}

/** One page of a list; `iterator` asks for the next one. */
export interface List<T> {
  readonly data: readonly T[]
  readonly iterator: string | null
  readonly prevIterator: string | null
  readonly done: boolean
}

/** Applications. Each is named by its id or uid. */
export interface Applications {
  create(input: ApplicationIn): Promise<ApplicationOut>
  /** The application with this uid, created when there is none. */
  getOrCreate(input: ApplicationIn & { readonly uid: string }): Promise<ApplicationOut>
  get(app: string): Promise<ApplicationOut>
  list(options?: ListOptions): Promise<List<ApplicationOut>>
  /** Absent fields stay; null unsets a field. */
  update(app: string, change: ApplicationPatch): Promise<ApplicationOut>
  /** Deletes it with its endpoints and their waiting deliveries. */
  delete(app: string): Promise<void>
}

/** The endpoints of an application. Each is named by its id or uid. */
export interface Endpoints {
  /** Without `secret`, a random one is made; `secret()` returns it. */
  create(app: string, input: EndpointIn): Promise<EndpointOut>
  get(app: string, endpoint: string): Promise<EndpointOut>
  list(app: string, options?: ListOptions): Promise<List<EndpointOut>>
  /** Absent fields stay; null unsets a field. */
  update(app: string, endpoint: string, change: EndpointPatch): Promise<EndpointOut>
  /** Deletes it with its waiting deliveries. */
  delete(app: string, endpoint: string): Promise<void>
  /** Stops delivering until `resume`; deliveries wait. */
  pause(app: string, endpoint: string): Promise<void>
  resume(app: string, endpoint: string): Promise<void>
  /** Sends nothing until the circuit is closed. */
  openCircuit(app: string, endpoint: string): Promise<EndpointOut>
  /** Sends again, at a rate that climbs back to normal. */
  closeCircuit(app: string, endpoint: string): Promise<EndpointOut>
  /** Sends again at full rate and clears the failures. */
  resetCircuit(app: string, endpoint: string): Promise<EndpointOut>
  /** The secret that the receiver verifies signatures with. */
  secret(app: string, endpoint: string): Promise<string>
  /**
   * Replaces the secret, by a random one or the given one, and resolves with it. The old secret also signs for the grace
   * period, a day by default.
   */
  rotateSecret(app: string, endpoint: string, rotation?: SecretRotation): Promise<string>
}

/** The new secret of an endpoint. */
export interface SecretRotation {
  readonly key?: string | undefined
  readonly gracePeriodSeconds?: number | undefined
}

export function applications(request: Request): Applications {
  return {
    create: (input) => request('POST', '/app', input),
    getOrCreate: (input) => request('POST', '/app?get_if_exists=true', input),
    get: (app) => request('GET', `/app/${part(app)}`),
    list: (options) => request('GET', `/app${queryOf(options)}`),
    update: (app, change) => request('PATCH', `/app/${part(app)}`, change),
    delete: (app) => request('DELETE', `/app/${part(app)}`),
  }
}

export function endpoints(request: Request): Endpoints {
  const at = (app: string, endpoint: string) => `/app/${part(app)}/endpoint/${part(endpoint)}`
  return {
    create: (app, input) => request('POST', `/app/${part(app)}/endpoint`, input),
    get: (app, endpoint) => request('GET', at(app, endpoint)),
    list: (app, options) => request('GET', `/app/${part(app)}/endpoint${queryOf(options)}`),
    update: (app, endpoint, change) => request('PATCH', at(app, endpoint), change),
    delete: (app, endpoint) => request('DELETE', at(app, endpoint)),
    pause: async (app, endpoint) => void (await request('POST', `${at(app, endpoint)}/pause`)),
    resume: async (app, endpoint) => void (await request('POST', `${at(app, endpoint)}/resume`)),
    openCircuit: (app, endpoint) => request('POST', `${at(app, endpoint)}/circuit/open`),
    closeCircuit: (app, endpoint) => request('POST', `${at(app, endpoint)}/circuit/close`),
    resetCircuit: (app, endpoint) => request('POST', `${at(app, endpoint)}/circuit/reset`),
    async secret(app, endpoint) {
      const { key } = await request<{ key: string }>('GET', `${at(app, endpoint)}/secret`)
      return key
    },
    async rotateSecret(app, endpoint, rotation = {}) {
      const { key } = await request<{ key: string }>('POST', `${at(app, endpoint)}/secret/rotate`, rotation)
      return key
    },
  }
}

/** Escapes a name, so that it is one part of a path. */
export function part(name: string): string {
  return encodeURIComponent(name)
}

/** The query of a path; '' without options. */
export function queryOf(options: object = {}): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(options)) if (value != null) query.set(name, String(value))
  return query.size === 0 ? '' : `?${query}`
}

/** A schedule to create. */
export type ScheduleIn = ScheduleFields & { readonly payload?: object | undefined }
/** The fields of a schedule to change; absent fields stay. */
export type SchedulePatch = SchedulePatchFields & { readonly payload?: object | undefined }
/** A schedule as the API shows it. */
export type ScheduleOut = Static<typeof ScheduleOutSchema>

/** Messages that are published by a cron expression. Each schedule is named by its id or uid. */
export interface Schedules {
  create(app: string, input: ScheduleIn): Promise<ScheduleOut>
  get(app: string, schedule: string): Promise<ScheduleOut>
  list(app: string, options?: ListOptions): Promise<List<ScheduleOut>>
  update(app: string, schedule: string, change: SchedulePatch): Promise<ScheduleOut>
  /** Deletes it; the messages that it published stay. */
  delete(app: string, schedule: string): Promise<void>
  pause(app: string, schedule: string): Promise<void>
  /** Continues with the next run. */
  resume(app: string, schedule: string): Promise<void>
  /** Publishes its message now; resolves with the message's id. */
  run(app: string, schedule: string): Promise<string>
}

export function schedules(request: Request): Schedules {
  const all = (app: string) => `/app/${part(app)}/schedule`
  const at = (app: string, schedule: string) => `${all(app)}/${part(schedule)}`
  return {
    create: (app, input) => request('POST', all(app), input),
    get: (app, schedule) => request('GET', at(app, schedule)),
    list: (app, options) => request('GET', all(app) + queryOf(options)),
    update: (app, schedule, change) => request('PATCH', at(app, schedule), change),
    delete: (app, schedule) => request('DELETE', at(app, schedule)),
    pause: async (app, schedule) => void (await request('POST', `${at(app, schedule)}/pause`)),
    resume: async (app, schedule) => void (await request('POST', `${at(app, schedule)}/resume`)),
    async run(app, schedule) {
      const { msgId } = await request<{ msgId: string }>('POST', `${at(app, schedule)}/run`)
      return msgId
    },
  }
}

/** A source to create. */
export type { SourceIn, SourcePatch } from '../operations/nouns/source-schema.ts'
/** A source as the API shows it. */
export type SourceOut = Static<typeof SourceOutSchema>
/** A new source, with the secret that Sluice made. */
export type SourceCreatedOut = Static<typeof SourceCreatedOutSchema>
/** A source among those of all applications. */
export type SourceSummaryOut = Static<typeof SourceSummaryOutSchema>
/** A sender that Sluice can verify. */
export type SourceProviderOut = Static<typeof SourceProviderOutSchema>
/** A request that a source refused. */
export type ArrivalSampleOut = Static<typeof ArrivalSampleOutSchema>
/** A request to judge. */
export type SourceTestIn = Static<typeof SourceTestInSchema>
/** The judgement about a request. */
export type SourceTestOut = Static<typeof SourceTestOutSchema>

/** URLs that take webhooks of other services in. Each source is named by its id or uid. */
export interface Sources {
  create(app: string, input: SourceIn): Promise<SourceCreatedOut>
  get(app: string, source: string): Promise<SourceOut>
  list(app: string, options?: ListOptions): Promise<List<SourceOut>>
  /** The sources of all applications. */
  listAll(options?: ListOptions): Promise<List<SourceSummaryOut>>
  /** The senders that Sluice can verify, with their settings. */
  providers(): Promise<readonly SourceProviderOut[]>
  /** Absent fields stay; `settings` replaces all settings. */
  update(app: string, source: string, change: SourcePatch): Promise<SourceOut>
  /** Deletes it; the messages that arrived at it stay. */
  delete(app: string, source: string): Promise<void>
  /** Gives it a new URL. The old URL works for the grace period, two days by default. */
  rotateToken(app: string, source: string, gracePeriodSeconds?: number): Promise<SourceOut>
  /** Replaces the secret; resolves with the new one if Sluice made it. */
  rotateSecret(app: string, source: string, rotation?: SourceRotation): Promise<string | null>
  /** The newest refused requests, and why they were refused. */
  samples(app: string, source: string): Promise<readonly ArrivalSampleOut[]>
  /** Judges a request without storing anything: whether the source would accept it, or why not. */
  test(app: string, source: string, request: SourceTestIn): Promise<SourceTestOut>
}

/** The new secret of a source. */
export interface SourceRotation {
  readonly secret?: string | undefined
  readonly gracePeriodSeconds?: number | undefined
}

export function sources(request: Request): Sources {
  const all = (app: string) => `/app/${part(app)}/source`
  const at = (app: string, source: string) => `${all(app)}/${part(source)}`
  return {
    create: (app, input) => request('POST', all(app), input),
    get: (app, source) => request('GET', at(app, source)),
    list: (app, options) => request('GET', `${all(app)}${queryOf(options)}`),
    listAll: (options) => request('GET', `/source${queryOf(options)}`),
    async providers() {
      return (await request<{ data: readonly SourceProviderOut[] }>('GET', '/source-provider')).data
    },
    update: (app, source, change) => request('PATCH', at(app, source), change),
    delete: (app, source) => request('DELETE', at(app, source)),
    rotateToken: (app, source, gracePeriodSeconds) =>
      request('POST', `${at(app, source)}/token/rotate`, { gracePeriodSeconds }),
    async rotateSecret(app, source, rotation = {}) {
      const { secret } = await request<{ secret: string | null }>('POST', `${at(app, source)}/secret/rotate`, rotation)
      return secret
    },
    async samples(app, source) {
      return (await request<{ data: readonly ArrivalSampleOut[] }>('GET', `${at(app, source)}/sample`)).data
    },
    test: (app, source, tried) => request('POST', `${at(app, source)}/test`, tried),
  }
}
