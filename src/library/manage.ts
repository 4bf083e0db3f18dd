import type { ApplicationIn, ApplicationPatch, toApplicationOut } from '../http/api/application-schema.ts'
import type { EndpointIn, EndpointPatch, toEndpointOut } from '../http/api/endpoint-schema.ts'
import type { Request } from '../http/in-process.ts'

/** An application as the API shows it. */
export type ApplicationOut = ReturnType<typeof toApplicationOut>
/** An endpoint as the API shows it. */
export type EndpointOut = ReturnType<typeof toEndpointOut>

/** Which part of a list to get. */
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

/** Managing applications. Each is named by its id or its uid. */
export interface Applications {
  create(input: ApplicationIn): Promise<ApplicationOut>
  /** The application with this uid, created when there is none. */
  getOrCreate(input: ApplicationIn & { readonly uid: string }): Promise<ApplicationOut>
  get(app: string): Promise<ApplicationOut>
  list(options?: ListOptions): Promise<List<ApplicationOut>>
  /** What is absent stays, null unsets. */
  update(app: string, change: ApplicationPatch): Promise<ApplicationOut>
  /** Its endpoints go with it, and what waited for them is never sent. */
  delete(app: string): Promise<void>
}

/** Managing the endpoints of an application. Each is named by its id or its uid. */
export interface Endpoints {
  /** `secret` is made when not given; `secret()` tells it. */
  create(app: string, input: EndpointIn): Promise<EndpointOut>
  get(app: string, endpoint: string): Promise<EndpointOut>
  list(app: string, options?: ListOptions): Promise<List<EndpointOut>>
  /** What is absent stays, null unsets. */
  update(app: string, endpoint: string, change: EndpointPatch): Promise<EndpointOut>
  /** What waited for it is never sent. */
  delete(app: string, endpoint: string): Promise<void>
  /** Stops delivering and keeps what waits, until `resume`. */
  pause(app: string, endpoint: string): Promise<void>
  resume(app: string, endpoint: string): Promise<void>
  /** Sends nothing more, whatever the receiver answers, until it is closed. */
  openCircuit(app: string, endpoint: string): Promise<EndpointOut>
  /** Goes on, slowly at first. */
  closeCircuit(app: string, endpoint: string): Promise<EndpointOut>
  /** Goes on at once as if the receiver had never failed. */
  resetCircuit(app: string, endpoint: string): Promise<EndpointOut>
  /** What the receiver verifies signatures with. */
  secret(app: string, endpoint: string): Promise<string>
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
  }
}

/** A name within a path: whatever it contains, it stays one part of it. */
export function part(name: string): string {
  return encodeURIComponent(name)
}

/** What a list is asked for, behind its path. */
export function queryOf(options: object = {}): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(options)) if (value != null) query.set(name, String(value))
  return query.size === 0 ? '' : `?${query}`
}
