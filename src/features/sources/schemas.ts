import { type Static, Type } from 'typebox'
import type { FieldError } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import type { SimpleForm } from '../../domain/field.ts'
import { schemasOf, toShown } from '../../noun/schemas.ts'
import { read } from '../../operations/access.ts'
import {
  appId,
  closed,
  described,
  flag,
  idOf,
  instant,
  iso,
  isoOrNull,
  Labels,
  MaybeInstant,
  maybe,
  metadataProblems,
  nullable,
  optional,
  schemaOf,
  text,
  uidOut,
  whole,
} from '../../operations/fields.ts'
import { byId, type ListOut, type PageQuery, paginate } from '../../operations/page.ts'
import { type Incoming, type Noun, type Out, route } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import type { Judgement } from '../../sources/arrival.ts'
import type { Provider } from '../../sources/provider.ts'
import { isProviderName, type ProviderName, providerNames, providers } from '../../sources/providers.ts'
import { completed, settingsProblems } from '../../sources/settings.ts'
import type { PageRequest } from '../../store/store.ts'
import { source as noun, type Source } from './noun.ts'
import { type ArrivalSample, type ArrivalSums, noArrivals } from './rules.ts'

const { made, changed, shown } = schemasOf(noun, {
  settings: { given: Type.Record(Type.String(), Type.Unknown(), { maxProperties: 64 }) },
})

export const SourceIn = Type.Object(
  {
    ...made,
    provider: Type.Enum([...providerNames], { description: noun.fields.provider.description }),
    secret: maybe(text('Secret that the provider signs with. Where you choose it, Sluice makes one by default.')),
  },
  closed,
)
export type SourceIn = Static<typeof SourceIn>

/** Changes a source: a field that is absent stays. Settings are replaced as a whole. */
export const SourcePatch = Type.Object(changed, closed)
export type SourcePatch = Static<typeof SourcePatch>

const ArrivalsOut = Type.Object(
  {
    accepted: whole('Arrivals that were stored, or that repeated a stored one.'),
    acceptedAt: described(MaybeInstant, 'Time of the last of these.'),
    refused: whole('Arrivals that were refused.'),
    refusedAt: described(MaybeInstant, 'Time of the last of these.'),
    refusedInRow: whole('Refused arrivals since the last one that was accepted.'),
    refusedCode: nullable(text('Why the last one was refused.')),
  },
  { description: 'Arrivals so far, up to a second ago.' },
)

export const SourceOut = Type.Object({
  id: described(idOf('src'), 'Unique id, assigned by the server. It is the channel of the messages of the source.'),
  ...shown,
  settings: Type.Record(Type.String(), Type.Unknown(), {
    description: 'All settings of the provider, without those that are secrets.',
  }),
  sensitiveSettings: Type.Array(Type.String(), { description: 'Names of the settings that are set and not shown.' }),
  url: nullable(text('URL to give to the provider. It holds a token, so keys without the scope `admin` see null.')),
  ingressUrl: nullable(text('URL with the id in place of the token; null for a source that verifies nothing.')),
  secrets: Type.Array(
    Type.Object({ expiresAt: described(MaybeInstant, 'Time at which it stops counting; null for never.') }),
    { description: 'Secrets that count now, the newest first, without their values.' },
  ),
  tokens: Type.Array(
    Type.Object({ expiresAt: described(MaybeInstant, 'Time at which its URL stops working; null for never.') }),
    { description: 'Tokens that count now, the newest first, without their values.' },
  ),
  damaged: flag('Whether its stored secrets do not open, so that arrivals are answered 503.'),
  arrivals: ArrivalsOut,
})

/** A new source, with its secret if Sluice made it. */
export const SourceCreatedOut = Type.Object({
  ...SourceOut.properties,
  secret: nullable(text('The secret that Sluice made, shown once; null when you gave one or none is needed.')),
})

export const SourceSummaryOut = Type.Object({
  ...SourceOut.properties,
  appId,
  appUid: uidOut,
})

/** The longest and the usual time for which an old token or secret still counts. */
export const graceLimitSeconds = 7 * 24 * 60 * 60
export const graceSeconds = 2 * 24 * 60 * 60

export const SourceTestIn = Type.Object(
  {
    method: optional(Type.Enum(['POST', 'GET']), 'Method of the request; `POST` by default.'),
    url: optional(Type.String({ maxLength: 2048 }), 'URL as the sender calls it; that of the source by default.'),
    headers: optional(Type.Record(Type.String(), Type.String(), { maxProperties: 128 }), 'Headers of the request.'),
    body: optional(Type.String(), 'Body of the request as text.'),
    bodyBase64: optional(Type.String(), 'Body of the request as base64, in place of `body`.'),
  },
  closed,
)

export const SourceTestOut = Type.Object({
  result: Type.Enum(['event', 'answer', 'refused', 'unavailable'], {
    description: '`event`: it would be stored. `answer`: it is a handshake. `refused` and `unavailable`: see `reason`.',
  }),
  eventType: nullable(text('Event type of the message.')),
  eventId: nullable(text('Id by which the event is known when it comes again.')),
  code: nullable(text('Why it would be refused.')),
  reason: nullable(text('The same as a sentence.')),
})

export const ArrivalSampleOut = Type.Object({
  at: instant('Time of the request.'),
  code: text('Why it was refused.'),
  reason: text('The same as a sentence.'),
  method: text('Method of the request.'),
  query: text('Names of the parameters of its URL.'),
  address: text('Address of the sender.'),
  headers: described(Labels, 'Headers, without the values of those that hold secrets or signatures.'),
  body: text('Beginning of the body, up to 2 KiB, as base64.'),
  bytes: nullable(whole('Length of the whole body.')),
  unsampled: whole('Further refused requests in the same second, which are not kept.'),
})

export const ArrivalSamplesOut = Type.Object({
  data: Type.Array(ArrivalSampleOut, { description: 'The newest first.' }),
})

interface SourceView {
  /** The URL of this server for senders. */
  readonly base: string
  /** Whether the caller may see the token. */
  readonly showsToken: boolean
  readonly now: EpochMs
}

function toSourceOut(source: Source, sums: ArrivalSums | undefined, view: SourceView): Out<typeof SourceOut> {
  const { id, provider, secrets, tokens } = source
  const { base, showsToken, now } = view
  const [token] = tokens
  const all = isProviderName(provider) ? completed(provider, source.settings) : source.settings
  const isSensitive = (setting: string) => isProviderName(provider) && providers[provider].settings[setting]?.sensitive
  const current = (list: Source['secrets']) =>
    list
      .filter(({ expiresAt }) => expiresAt === null || expiresAt > now)
      .map(({ expiresAt }) => ({ expiresAt: isoOrNull(expiresAt) }))
  const { acceptedAt, refusedAt, ...counts } = sums ?? noArrivals
  return {
    id,
    ...toShown(noun, source),
    settings: Object.fromEntries(Object.entries(all).filter(([setting]) => !isSensitive(setting))),
    sensitiveSettings: Object.keys(all).filter((setting) => isSensitive(setting) && all[setting] != null),
    url: showsToken && token !== undefined ? `${base}/in/${token.secret}` : null,
    ingressUrl: provider === 'none' ? null : `${base}/ingress/${id}`,
    secrets: current(secrets),
    tokens: current(tokens),
    damaged: source.damaged === true,
    arrivals: { ...counts, acceptedAt: isoOrNull(acceptedAt), refusedAt: isoOrNull(refusedAt) },
  }
}

export function toSampleOut({ at, body, ...sample }: ArrivalSample): Out<typeof ArrivalSampleOut> {
  return { ...sample, at: iso(at), body: Buffer.from(body).toString('base64') }
}

export function toTestOut(judgement: Judgement): Out<typeof SourceTestOut> {
  const nothing = { eventType: null, eventId: null, code: null, reason: null }
  switch (judgement.kind) {
    case 'event':
      return { ...nothing, result: 'event', eventType: judgement.eventType, eventId: judgement.eventId ?? null }
    case 'answer':
      return { ...nothing, result: 'answer' }
    case 'refused':
      return { ...nothing, result: 'refused', code: judgement.code, reason: judgement.reason }
    case 'unavailable':
      return { ...nothing, result: 'unavailable', reason: judgement.reason }
  }
}

/** Everything wrong with a source, as its verifier and the bounds of its fields see it. */
export function sourceProblems(
  provider: ProviderName,
  settings: Source['settings'],
  secrets: readonly string[],
  metadata: Source['metadata'] | undefined,
): FieldError[] {
  return [...settingsProblems(provider, settings, secrets), ...metadataProblems(metadata)]
}

/**
 * Problems of the URL of public keys, unless it is the stored one. The keys decide who is genuine: on the way of plain HTTP,
 * or in the own network, another machine may answer with its own.
 */
export function keysUrlProblems(
  { jwksUrl }: Source['settings'],
  { checkUrl }: Pick<Services, 'checkUrl'>,
  before?: Source,
): FieldError[] {
  if (typeof jwksUrl !== 'string' || jwksUrl === before?.settings.jwksUrl) return []
  return checkUrl(jwksUrl).map((message) => ({ at: ['body', 'settings', 'jwksUrl'], message, type: 'setting' }))
}

/** The URL of this server for senders. */
export function baseOf(
  { publicUrl }: Pick<Services, 'publicUrl'>,
  { protocol, host }: Pick<Incoming, 'protocol' | 'host'>,
): string {
  return publicUrl?.replace(/\/$/, '') ?? `${protocol}://${host}`
}

/** A page of the sources of an application, or of all with null. */
export function pageOfSources(
  { store, clock }: Services,
  app: number | null,
  query: PageQuery,
): Promise<ListOut<Source>> {
  const list = (page: PageRequest) => store.listSources(app, page)
  return paginate(clock, query, { ...byId('src'), list, toOut: (source: Source) => source })
}

export async function showAll(
  services: Services,
  request: Incoming,
  list: readonly Source[],
): Promise<Out<typeof SourceOut>[]> {
  const sums = await services.store.arrivalSums(list.map(({ key }) => key))
  const { caller } = request
  const view = {
    base: baseOf(services, request),
    showsToken: caller?.scopes.has('admin') === true,
    now: services.clock.now(),
  }
  return list.map((source) => toSourceOut(source, sums.get(source.key), view))
}

export interface Listed {
  readonly source: Source
  readonly shown: Out<typeof SourceSummaryOut>
}

/** A page of the sources of all applications. The number of its queries does not depend on its length. */
export async function listAll(services: Services, request: Incoming, query: PageQuery) {
  const page = await pageOfSources(services, null, query)
  return { ...page, data: await showWithApps(services, request, page.data) }
}

/** Sources with their applications, without those whose application was deleted meanwhile. */
export async function showWithApps(services: Services, request: Incoming, list: readonly Source[]): Promise<Listed[]> {
  const apps = await services.store.applicationRefs([...new Set(list.map(({ app }) => app))])
  const shown = await showAll(services, request, list)
  return list.flatMap((source, i) => {
    const [app, out] = [apps.get(source.app), shown[i]]
    return app === undefined || out === undefined ? [] : [{ source, shown: { ...out, appId: app.id, appUid: app.uid } }]
  })
}

export async function showSource(
  services: Services,
  request: Incoming,
  source: Source,
): Promise<Out<typeof SourceOut>> {
  const [shown] = await showAll(services, request, [source])
  return shown as Out<typeof SourceOut>
}

const list = (description: string) => Type.Array(Type.String(), { description })

const SecretNeedOut = Type.Object({
  name: text("The provider's name for it."),
  origin: Type.Enum(['given', 'chosen'], {
    description: '`given` by the provider; `chosen` by you, so that Sluice makes one when you give none.',
  }),
  required: flag('Whether a source needs one.'),
  minLength: whole('Characters that it has at least.'),
})

export const SourceProviderOut = Type.Object({
  name: Type.Enum(providerNames, { description: 'Name that sources refer to.' }),
  title: text('Display name.'),
  description: text('How requests are verified, in Markdown.'),
  steps: list('Where the URL and the secret go at the provider, step by step, in Markdown.'),
  reference: nullable(text('Page of the provider about it.')),
  secret: nullable(SecretNeedOut),
  settings: Type.Record(Type.String(), Type.Unknown(), { description: 'JSON Schema of the settings of a source.' }),
  defaults: Type.Record(Type.String(), Type.Unknown(), {
    description: 'Values of settings that a source does not set.',
  }),
  sensitive: list('Settings that are secrets: they are never shown again.'),
})

const SourceProvidersOut = Type.Object({
  data: Type.Array(SourceProviderOut, { description: 'All providers; well-known senders first.' }),
})

function toProviderOut(name: ProviderName): Out<typeof SourceProviderOut> {
  const { title, description, steps, reference, secret, settings } = providers[name]
  const entries = Object.entries(settings)
  return {
    name,
    title,
    description,
    steps: [...steps],
    reference: reference ?? null,
    secret:
      secret === undefined
        ? null
        : { name: secret.name, origin: secret.origin, required: secret.required, minLength: secret.least },
    settings: settingsSchema(settings),
    defaults: Object.fromEntries(entries.map(([key, { fallback }]) => [key, fallback])),
    sensitive: entries.flatMap(([key, { sensitive }]) => (sensitive === true ? [key] : [])),
  }
}

/** The JSON Schema of a provider's settings. A source is checked by `settingsProblems`, which knows more. */
function settingsSchema(settings: Provider['settings']): Record<string, unknown> {
  const entries = Object.entries(settings)
  return {
    type: 'object',
    required: entries.flatMap(([key, { required }]) => (required === true ? [key] : [])),
    properties: Object.fromEntries(
      entries.map(([key, { kind, description }]) => [key, { ...schemaOf(kind as SimpleForm), description }]),
    ),
    additionalProperties: false,
  }
}

export const sourceProviders = {
  tag: 'Source provider',
  description: 'A sender of webhooks that sources can verify.',
  schemas: { SourceProviderOut, SourceProvidersOut },
  routes: [
    route('GET /source-provider', read, {
      id: 'v1.source-provider.list',
      summary: 'List the providers of sources',
      description: 'Each with its settings, its secret, and the steps that set it up.',
      answers: { 200: SourceProvidersOut },
      handle: () => ({ data: providerNames.map(toProviderOut) }),
    }),
  ],
} satisfies Noun
