import { type Static, Type } from 'typebox'
import { ingestRoot } from '../../domain/api.ts'
import { AppError, type FieldError } from '../../domain/app-error.ts'
import { admin } from '../../operations/access.ts'
import {
  closed,
  createdAt,
  described,
  displayName,
  id,
  idOf,
  iso,
  listOf,
  maybe,
  metadata,
  metadataIn,
  nullable,
  optional,
  text,
  uid,
  uidOut,
  updatedAt,
} from '../../operations/fields.ts'
import { found, lookUp, newUid } from '../../operations/lookup.ts'
import { PageQuery } from '../../operations/page.ts'
import { type Incoming, type Noun, type Out, Reply, route, under } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import { refuseIf } from '../../operations/validate.ts'
import { type ProviderName, providers } from '../../sources/providers.ts'
import { AppPortalAccessIn, AppPortalAccessOut, letIn } from '../access/schemas.ts'
import type { Application } from '../applications/noun.ts'
import { type EndpointScope, forAdmins, routesAt } from '../endpoints/scope-service.ts'
import type { NewSource, Source } from '../sources/noun.ts'
import { graceSeconds, type Listed, listAll, showSource, showWithApps, sourceProblems } from '../sources/schemas.ts'
import { rotateToken, tokenOf } from '../sources/service.ts'

/** How a type of Svix is verified here: its provider, and the settings where the provider is a general one. */
interface IngestType {
  readonly provider: ProviderName
  readonly settings?: Source['settings']
}

const hmac = (header: string, hash: string, encoding: string): IngestType => {
  return { provider: 'hmac', settings: { header, hash, encoding } }
}

const standard: IngestType = { provider: 'standard' }

/** Svix's types of sources that Sluice can verify. Many services sign as Svix does. */
const ingestTypes = {
  'generic-webhook': { provider: 'none' },
  svix: standard,
  github: { provider: 'github' },
  meta: { provider: 'meta' },
  shopify: { provider: 'shopify' },
  slack: { provider: 'slack' },
  stripe: { provider: 'stripe' },
  segment: hmac('x-signature', 'sha1', 'hex'),
  docusign: hmac('x-docusign-signature-1', 'sha256', 'base64'),
  veriff: hmac('x-hmac-signature', 'sha256', 'hex'),
  beehiiv: standard,
  brex: standard,
  clerk: standard,
  guesty: standard,
  'incident-io': standard,
  lithic: standard,
  nash: standard,
  'open-ai': standard,
  pleo: standard,
  'psi-fi': standard,
  render: standard,
  replicate: standard,
  resend: standard,
  safebase: standard,
  sardine: standard,
  stych: standard,
} as const satisfies Readonly<Record<string, IngestType>>

type IngestTypeName = keyof typeof ingestTypes

const about = {
  type: "Type of the source, as in Svix's API; those that Sluice cannot verify are refused.",
  config: 'Secret of the sender, and the verify token of Meta.',
}

const IngestSourceIn = Type.Object(
  {
    name: described(displayName(256), 'Display name.'),
    uid: Type.Optional(uid('src')),
    type: Type.Enum(Object.keys(ingestTypes) as IngestTypeName[], { description: about.type }),
    config: maybe(
      Type.Object(
        {
          secret: maybe(text('Secret that the sender signs with.')),
          verifyToken: maybe(text('Verify token of Meta.')),
        },
        closed,
      ),
      about.config,
    ),
    metadata: metadataIn,
    appId: maybe(text('Application that the source belongs to, by id or uid; by default one is made for it.')),
  },
  closed,
)

type IngestSourceIn = Static<typeof IngestSourceIn>

const IngestSourceOut = Type.Object({
  id: described(idOf('src'), id),
  uid: uidOut,
  name: text('Display name.'),
  type: text(about.type),
  config: optional(
    Type.Object({}),
    "Empty, because secrets are not shown; absent for `generic-webhook`, which has none in Svix's API.",
  ),
  ingestUrl: nullable(text('URL to give to the sender.')),
  appId: text('Id of the application whose endpoints get the events.'),
  createdAt,
  updatedAt,
  metadata,
})

const RotateTokenOut = Type.Object({ ingestUrl: text('The new URL of the source.') })

const IngestSourceConsumerPortalAccessIn = Type.Object(
  {
    expiry: AppPortalAccessIn.properties.expiry,
    readOnly: AppPortalAccessIn.properties.readOnly,
  },
  closed,
)

const one = '/source/:source' as const

/** Endpoints of the application of a source. Those that are made here get the messages of the source alone. */
const ofSources: EndpointScope = {
  path: '/source/:source/endpoint',
  id: 'v1.ingest.endpoint',
  whose: 'the application of a source',
  needs: forAdmins,
  subscribesToEventTypes: false,
}

const ingestEndpoints = routesAt(ofSources)

export const ingest = {
  tag: 'Ingest',
  description: "Sources in the shapes of Svix's SDKs (`svix.ingest`).",
  schemas: { IngestSourceIn, IngestSourceOut, RotateTokenOut, IngestSourceConsumerPortalAccessIn },
  routes: under(ingestRoot, [
    route('GET /source', admin, {
      id: 'v1.ingest.source.list',
      summary: 'List the sources of all applications',
      query: PageQuery,
      answers: { 200: listOf(IngestSourceOut) },
      handle: async ({ query, request }, services) => {
        const { data, ...page } = await listAll(services, request, query)
        return { ...page, data: data.map(ingestOut) }
      },
    }),
    route('POST /source', admin, {
      id: 'v1.ingest.source.create',
      summary: 'Create a source',
      description: 'Without `appId`, an application is made for the source and deleted with it.',
      body: IngestSourceIn,
      answers: { 201: IngestSourceOut },
      answersSecret: true,
      handle: async ({ body, request }, services) => toIngestOut(services, request, await create(services, body)),
    }),
    route(`GET ${one}`, admin, {
      id: 'v1.ingest.source.get',
      summary: 'Get a source',
      answers: { 200: IngestSourceOut },
      handle: ({ source, request }, services) => toIngestOut(services, request, source),
    }),
    route(`PUT ${one}`, admin, {
      id: 'v1.ingest.source.update',
      summary: 'Replace a source, or create it',
      description: 'Absent fields return to their defaults; `uid` and the application stay.',
      body: IngestSourceIn,
      answers: { 200: IngestSourceOut, 201: IngestSourceOut },
      lookup: 'upsert',
      handle: async ({ source, params, body, request }, services) => {
        if (source === undefined) {
          const uid = newUid('source', 'src', params.source)
          const created = await create(services, { ...body, uid: body.uid ?? uid })
          return new Reply(201, await toIngestOut(services, request, created))
        }
        const { disabled, ...change } = toNewSource(body, source.disabled)
        const named = { ...change, uid: body.uid ?? source.uid, ingestType: body.type }
        const changed = await services.store.updateSource(source.app, source.key, named)
        return toIngestOut(services, request, found(changed, 'source', source.id))
      },
    }),
    route(`DELETE ${one}`, admin, {
      id: 'v1.ingest.source.delete',
      summary: 'Delete a source, and the application that was made for it',
      answers: { 204: null },
      handle: ({ source: { app, key, ownsApp } }, { store }) =>
        ownsApp ? store.deleteApplication(app) : store.deleteSource(app, key),
    }),
    route(`POST ${one}/token/rotate`, admin, {
      id: 'v1.ingest.source.rotate-token',
      summary: 'Give a source a new URL',
      description: 'The old URL works for two more days.',
      answers: { 200: RotateTokenOut },
      answersSecret: true,
      handle: async ({ source, request }, services) => {
        const { url } = await showSource(services, request, await rotateToken(services, source, graceSeconds))
        return { ingestUrl: url ?? '' }
      },
    }),
    route(`POST ${one}/dashboard`, admin, {
      id: 'v1.ingest.dashboard',
      summary: 'Make a link to the portal of the application of a source',
      body: IngestSourceConsumerPortalAccessIn,
      answers: { 200: AppPortalAccessOut },
      answersSecret: true,
      handle: async ({ source, body, request }, services) =>
        letIn(services, request, await applicationOf(services, source), body),
    }),
    ...ingestEndpoints,
  ]),
} satisfies Noun

/** The fields of a source that the shapes of Svix describe. Throws AppError with everything that is wrong with them. */
function toNewSource({ type, name, config, metadata = {}, uid = null }: IngestSourceIn, disabled = false) {
  const { provider, settings = {} }: IngestType = ingestTypes[type]
  const { secret = null, verifyToken = null } = config ?? {}
  const isOpen = provider === 'none' || (secret === null && isSecretOptional(type))
  const fields = isOpen
    ? { provider: 'none' as const, settings: { ...templatesOf(provider), acceptUnsigned: true }, secrets: [] }
    : {
        provider,
        settings: verifyToken === null ? settings : { ...settings, verifyToken },
        secrets: secret === null ? [] : [{ secret, expiresAt: null }],
      }
  const secrets = fields.secrets.map((each) => each.secret)
  refuseIf(sourceProblems(fields.provider, fields.settings, secrets, metadata).map(inConfig))
  return { ...fields, uid, name, disabled, metadata } satisfies NewSource
}

/** Svix's API lets these types go without a secret; the URL is then the only one. */
function isSecretOptional(type: IngestTypeName): boolean {
  return type === 'github' || type === 'segment' || type === 'docusign'
}

/** Where the provider takes event types and ids from, for a source that it does not verify. */
function templatesOf(provider: ProviderName): Source['settings'] {
  const { eventType, eventId } = providers[provider].settings
  return { eventType: eventType?.fallback, ...(eventId?.fallback != null && { eventId: eventId.fallback }) }
}

/** Where a problem of a setting or a secret stands in the shapes of Svix. */
function inConfig(problem: FieldError): FieldError {
  const [body, first, ...rest] = problem.at
  if (first !== 'settings' && first !== 'secret') return problem
  return { ...problem, at: [body ?? 'body', 'config', ...(first === 'settings' ? rest : [first])] }
}

async function create(services: Services, body: IngestSourceIn): Promise<Source> {
  const { store, limits } = services
  const fields = toNewSource(body)
  const { appId = null } = body
  const ownsApp = appId === null
  const app = ownsApp
    ? await makeApplication(services, body)
    : await lookUp('application', appId, (ref) => store.findApplication(ref))
  try {
    const input = { ...fields, ingestType: body.type, ownsApp }
    return await store.createSource(app.key, input, tokenOf(services), limits.maxSourcesPerApp)
  } catch (error) {
    if (ownsApp) await store.deleteApplication(app.key)
    throw error
  }
}

/** The uid of the application keeps two sources with the same uid from being made. */
async function makeApplication({ store }: Services, { name, uid = null }: IngestSourceIn): Promise<Application> {
  const taken = uid === null ? [] : await store.sourcesNamed(uid)
  if (taken.length > 0) throw new AppError('conflict', `The uid ${JSON.stringify(uid)} is already in use.`)
  const named = uid === null ? null : `source.${uid}`
  return store.createApplication({ name, uid: named, throttleRate: null, metadata: {} })
}

async function applicationOf({ store }: Services, { app }: Source): Promise<Application> {
  const ref = (await store.applicationRefs([app])).get(app)
  return found(ref && (await store.findApplication(ref.id)), 'application', ref?.id ?? '')
}

/** The name of a provider among Svix's types, which its SDKs know alone. */
function typeOf({ ingestType, provider }: Source): string {
  if (ingestType !== null) return ingestType
  if (provider === 'standard') return 'svix'
  return Object.hasOwn(ingestTypes, provider) ? provider : 'generic-webhook'
}

async function toIngestOut(
  services: Services,
  request: Incoming,
  source: Source,
): Promise<Out<typeof IngestSourceOut>> {
  const [listed] = await showWithApps(services, request, [source])
  return ingestOut(found(listed, 'source', source.id))
}

function ingestOut({ source, shown }: Listed): Out<typeof IngestSourceOut> {
  const { id, uid, name, url, appId, metadata } = shown
  const type = typeOf(source)
  return {
    id,
    uid,
    name,
    type,
    // Svix's Rust SDK and its CLI refuse a `config` of a type that has none, and all other sources of the list with it.
    ...(type !== 'generic-webhook' && { config: {} }),
    ingestUrl: url,
    appId,
    createdAt: iso(source.createdAt),
    updatedAt: iso(source.updatedAt),
    metadata,
  }
}
