import type { Static } from 'typebox'
import type { ApplicationIn, ApplicationPatch, toApplicationOut } from '../features/applications/schemas.ts'
import type { EndpointSecretRotateIn } from '../features/credentials/scope-service.ts'
import type { EndpointIn, EndpointPatch, toEndpointOut } from '../features/endpoints/schemas.ts'
import type {
  ScheduleFields,
  ScheduleOut as ScheduleOutSchema,
  SchedulePatchFields,
} from '../features/schedules/schemas.ts'
import type { SourceSecretRotateIn } from '../features/sources/routes.ts'
import type {
  ArrivalSampleOut,
  SourceCreatedOut,
  SourceIn,
  SourceOut,
  SourcePatch,
  SourceProviderOut,
  SourceSummaryOut,
  SourceTestIn,
  SourceTestOut,
} from '../features/sources/schemas.ts'
import type { ViewIn, ViewOut, ViewPatch } from '../features/views/routes.ts'
import type { CallRoute } from '../operations/in-process.ts'
import type { ListOut as List, PageQuery } from '../operations/page.ts'

/** Fields that may be left out, or be null or undefined, which means the same. */
type Options<T> = { readonly [Field in keyof T]?: T[Field] | null | undefined }

/** An application as the API shows it. */
export type ApplicationOut = ReturnType<typeof toApplicationOut>
/** An endpoint as the API shows it. */
export type EndpointOut = ReturnType<typeof toEndpointOut>

/** The part of a list to get. */
export type ListOptions = Options<PageQuery>

export type { List }

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
export type SecretRotation = Options<Static<typeof EndpointSecretRotateIn>>

function applications(call: CallRoute): Applications {
  return {
    create: call('POST', '/app'),
    getOrCreate: call('POST', '/app', { get_if_exists: true }),
    get: call('GET', '/app/:app'),
    list: call('GET', '/app'),
    update: call('PATCH', '/app/:app'),
    delete: call('DELETE', '/app/:app'),
  }
}

function endpoints(call: CallRoute): Endpoints {
  const secret = call('GET', '/app/:app/endpoint/:endpoint/secret')
  const rotateSecret = call('POST', '/app/:app/endpoint/:endpoint/secret/rotate')
  return {
    create: call('POST', '/app/:app/endpoint'),
    get: call('GET', '/app/:app/endpoint/:endpoint'),
    list: call('GET', '/app/:app/endpoint'),
    update: call('PATCH', '/app/:app/endpoint/:endpoint'),
    delete: call('DELETE', '/app/:app/endpoint/:endpoint'),
    pause: unanswered(call('POST', '/app/:app/endpoint/:endpoint/pause')),
    resume: unanswered(call('POST', '/app/:app/endpoint/:endpoint/resume')),
    openCircuit: call('POST', '/app/:app/endpoint/:endpoint/circuit/open'),
    closeCircuit: call('POST', '/app/:app/endpoint/:endpoint/circuit/close'),
    resetCircuit: call('POST', '/app/:app/endpoint/:endpoint/circuit/reset'),
    secret: async (app, endpoint) => (await secret(app, endpoint)).key,
    rotateSecret: async (app, endpoint, rotation = {}) => {
      // Only older SDKs of Svix get no secret.
      const made = await rotateSecret(app, endpoint, rotation)
      return (made ?? (await secret(app, endpoint))).key
    },
  }
}

/** The same call, which resolves with nothing. */
export function unanswered<Given extends unknown[]>(
  call: (...given: Given) => Promise<unknown>,
): (...given: Given) => Promise<void> {
  return async (...given) => void (await call(...given))
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

function schedules(call: CallRoute): Schedules {
  const run = call('POST', '/app/:app/schedule/:schedule/run')
  return {
    create: call('POST', '/app/:app/schedule'),
    get: call('GET', '/app/:app/schedule/:schedule'),
    list: call('GET', '/app/:app/schedule'),
    update: call('PATCH', '/app/:app/schedule/:schedule'),
    delete: call('DELETE', '/app/:app/schedule/:schedule'),
    pause: unanswered(call('POST', '/app/:app/schedule/:schedule/pause')),
    resume: unanswered(call('POST', '/app/:app/schedule/:schedule/resume')),
    run: async (app, schedule) => (await run(app, schedule)).msgId,
  }
}

/** A source as the API shows it. */
export type Source = Static<typeof SourceOut>
/** A source at its creation, with the secret if Sluice made it. */
export type NewSource = Static<typeof SourceCreatedOut>
/** A source in the list of all applications. */
export type SourceSummary = Static<typeof SourceSummaryOut>
/** A kind of sender that Sluice can verify. */
export type SourceProvider = Static<typeof SourceProviderOut>
/** The new secret of a source. */
export type SourceSecretRotation = Options<Static<typeof SourceSecretRotateIn>>
/** A refused request, and why it was refused. */
export type ArrivalSample = Static<typeof ArrivalSampleOut>
/** A request to judge. */
export type SourceTest = Static<typeof SourceTestIn>
/** Whether a source would accept a request, or why not. */
export type SourceVerdict = Static<typeof SourceTestOut>
export type { SourceIn, SourcePatch }

/** URLs that take webhooks of other services in. Each source is named by its id or uid. */
export interface Sources {
  create(app: string, input: SourceIn): Promise<NewSource>
  get(app: string, source: string): Promise<Source>
  list(app: string, options?: ListOptions): Promise<List<Source>>
  /** The sources of all applications. */
  listAll(options?: ListOptions): Promise<List<SourceSummary>>
  /** The senders that Sluice can verify, with their settings. */
  providers(): Promise<readonly SourceProvider[]>
  /** Absent fields stay; `settings` replaces all settings. */
  update(app: string, source: string, change: SourcePatch): Promise<Source>
  /** Deletes it; the messages that arrived at it stay. */
  delete(app: string, source: string): Promise<void>
  /** Gives it a new URL. The old URL works for the grace period, two days by default. */
  rotateToken(app: string, source: string, gracePeriodSeconds?: number): Promise<Source>
  /** Replaces the secret; resolves with the new one if Sluice made it. */
  rotateSecret(app: string, source: string, rotation?: SourceSecretRotation): Promise<string | null>
  /** The newest refused requests, and why they were refused. */
  samples(app: string, source: string): Promise<readonly ArrivalSample[]>
  /** Judges a request without storing anything: whether the source would accept it, or why not. */
  test(app: string, source: string, request: SourceTest): Promise<SourceVerdict>
}

function sources(call: CallRoute): Sources {
  const providers = call('GET', '/source-provider')
  const rotateToken = call('POST', '/app/:app/source/:source/token/rotate')
  const rotateSecret = call('POST', '/app/:app/source/:source/secret/rotate')
  const samples = call('GET', '/app/:app/source/:source/sample')
  return {
    create: call('POST', '/app/:app/source'),
    get: call('GET', '/app/:app/source/:source'),
    list: call('GET', '/app/:app/source'),
    listAll: call('GET', '/source'),
    providers: async () => (await providers()).data,
    update: call('PATCH', '/app/:app/source/:source'),
    delete: call('DELETE', '/app/:app/source/:source'),
    rotateToken: (app, source, gracePeriodSeconds) => rotateToken(app, source, { gracePeriodSeconds }),
    rotateSecret: async (app, source, rotation = {}) => (await rotateSecret(app, source, rotation)).secret,
    samples: async (app, source) => (await samples(app, source)).data,
    test: call('POST', '/app/:app/source/:source/test'),
  }
}

/** A view to create. */
export type NewView = Static<typeof ViewIn>
/** The fields of a view to change; null unsets a field. */
export type ViewChange = Static<typeof ViewPatch>
/** A view as the API shows it. */
export type View = Static<typeof ViewOut>

/** Filters over endpoints or dead letters that operators saved. Each is named by its id or uid. */
export interface Views {
  create(input: NewView): Promise<View>
  get(view: string): Promise<View>
  list(options?: ListOptions): Promise<List<View>>
  /** Absent fields stay; null unsets a field. */
  update(view: string, change: ViewChange): Promise<View>
  /** Deletes it; the endpoints or dead letters that it shows stay. */
  delete(view: string): Promise<void>
}

function views(call: CallRoute): Views {
  return {
    create: call('POST', '/view'),
    get: call('GET', '/view/:view'),
    list: call('GET', '/view'),
    update: call('PATCH', '/view/:view'),
    delete: call('DELETE', '/view/:view'),
  }
}

/** The nouns that a program manages, each with its calls. */
export interface Managed {
  readonly applications: Applications
  readonly endpoints: Endpoints
  readonly schedules: Schedules
  readonly sources: Sources
  readonly views: Views
}

export function managed(call: CallRoute): Managed {
  return {
    applications: applications(call),
    endpoints: endpoints(call),
    schedules: schedules(call),
    sources: sources(call),
    views: views(call),
  }
}
