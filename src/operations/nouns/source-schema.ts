import { type Static, Type } from 'typebox'
import { apiRoot } from '../../domain/api.ts'
import type { FieldError } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import { type ArrivalSample, type ArrivalSums, noArrivals, type Source } from '../../domain/source.ts'
import type { Judgement } from '../../sources/arrival.ts'
import { isProviderName, type ProviderName, providerNames, providers } from '../../sources/providers.ts'
import { completed, settingsProblems } from '../../sources/settings.ts'
import {
  createdAt,
  described,
  flag,
  idOf,
  instant,
  iso,
  isoOrNull,
  Labels,
  MaybeInstant,
  Metadata,
  metadataProblems,
  nullable,
  optional,
  text,
  uid,
  uidOut,
  updatedAt,
  whole,
} from '../fields.ts'
import type { Out } from '../route.ts'

const about = {
  name: 'Display name; the title of the provider by default.',
  provider: `Sender of the webhooks, as \`GET ${apiRoot}/source-provider\` lists them.`,
  settings: 'Settings of the provider by name. Null and absent settings have the default of the provider.',
  disabled: 'Whether arrivals are answered 404, as if there were no such source.',
  metadata: 'Your own labels, up to 4096 bytes as JSON.',
}

const fields = {
  uid: Type.Optional(uid('src')),
  name: optional(Type.String({ minLength: 1, maxLength: 256 }), about.name),
  settings: optional(Type.Record(Type.String(), Type.Unknown(), { maxProperties: 64 }), about.settings),
  disabled: optional(Type.Boolean(), about.disabled),
  metadata: optional(Metadata, about.metadata),
}

export const SourceIn = Type.Object({
  provider: Type.Enum([...providerNames], { description: about.provider }),
  ...fields,
  secret: Type.Optional(
    nullable(text('Secret that the provider signs with. Where you choose it, Sluice makes one by default.')),
  ),
})
export type SourceIn = Static<typeof SourceIn>

/** Changes a source: a field that is absent stays. Settings are replaced as a whole. */
export const SourcePatch = Type.Object(fields)
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

/** A source as callers see it. */
export const SourceOut = Type.Object({
  id: described(idOf('src'), 'Unique id, assigned by the server. It is the channel of the messages of the source.'),
  uid: uidOut,
  name: text(about.name),
  provider: text(about.provider),
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
  disabled: flag(about.disabled),
  damaged: flag('Whether its stored secrets do not open, so that arrivals are answered 503.'),
  metadata: described(Labels, about.metadata),
  arrivals: ArrivalsOut,
  createdAt,
  updatedAt,
})

/** A new source, with its secret if Sluice made it. */
export const SourceCreatedOut = Type.Object({
  ...SourceOut.properties,
  secret: nullable(text('The secret that Sluice made, shown once; null when you gave one or none is needed.')),
})

/** A source among those of all applications. */
export const SourceSummaryOut = Type.Object({
  ...SourceOut.properties,
  appId: text('Id of the application.'),
  appUid: uidOut,
})

/** The longest and the usual time for which an old token or secret still counts. */
export const graceLimitSeconds = 7 * 24 * 60 * 60
export const graceSeconds = 2 * 24 * 60 * 60

export const SourceTestIn = Type.Object({
  method: optional(Type.Enum(['POST', 'GET']), 'Method of the request; `POST` by default.'),
  url: optional(Type.String({ maxLength: 2048 }), 'URL as the sender calls it; that of the source by default.'),
  headers: optional(Type.Record(Type.String(), Type.String(), { maxProperties: 128 }), 'Headers of the request.'),
  body: optional(Type.String(), 'Body of the request as text.'),
  bodyBase64: optional(Type.String(), 'Body of the request as base64, in place of `body`.'),
})

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

/** How a caller sees a source. */
export interface SourceView {
  /** The URL of this server for senders. */
  readonly base: string
  /** Whether the caller may see the token. */
  readonly showsToken: boolean
  readonly now: EpochMs
}

export function toSourceOut(source: Source, sums: ArrivalSums | undefined, view: SourceView): Out<typeof SourceOut> {
  const { id, uid, name, provider, disabled, metadata, secrets, tokens } = source
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
    uid,
    name,
    provider,
    settings: Object.fromEntries(Object.entries(all).filter(([setting]) => !isSensitive(setting))),
    sensitiveSettings: Object.keys(all).filter((setting) => isSensitive(setting) && all[setting] != null),
    url: showsToken && token !== undefined ? `${base}/in/${token.secret}` : null,
    ingressUrl: provider === 'none' ? null : `${base}/ingress/${id}`,
    secrets: current(secrets),
    tokens: current(tokens),
    disabled,
    damaged: source.damaged === true,
    metadata,
    arrivals: { ...counts, acceptedAt: isoOrNull(acceptedAt), refusedAt: isoOrNull(refusedAt) },
    createdAt: iso(source.createdAt),
    updatedAt: iso(source.updatedAt),
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
