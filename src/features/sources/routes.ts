import { Type } from 'typebox'
import { AppError, type FieldError } from '../../domain/app-error.ts'
import { toNew } from '../../noun/noun.ts'
import { admin, read } from '../../operations/access.ts'
import { closed, integer, listOf, maybe, nullable, text } from '../../operations/fields.ts'
import { found } from '../../operations/lookup.ts'
import { PageQuery } from '../../operations/page.ts'
import { type Noun, route } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import { refuseIf } from '../../operations/validate.ts'
import { isProviderName, type ProviderName, providers } from '../../sources/providers.ts'
import { missingSecret } from '../../sources/settings.ts'
import { rotated } from '../../wire/secret.ts'
import { source as noun, type Source } from './noun.ts'
import {
  ArrivalSamplesOut,
  graceLimitSeconds,
  graceSeconds,
  keysUrlProblems,
  listAll,
  pageOfSources,
  SourceCreatedOut,
  SourceIn,
  SourceOut,
  SourcePatch,
  SourceSummaryOut,
  SourceTestIn,
  SourceTestOut,
  showAll,
  showSource,
  sourceProblems,
  toSampleOut,
  toTestOut,
} from './schemas.ts'
import { change, refuseDamagedSource, rotateToken, tokenOf } from './service.ts'

const one = '/app/:app/source/:source' as const

const grace = maybe(
  integer(0, graceLimitSeconds),
  'Time during which the old one still counts beside the new one; two days by default.',
)

export const SourceSecretRotateIn = Type.Object(
  {
    secret: maybe(text('New secret; where you choose it, Sluice makes one by default.')),
    gracePeriodSeconds: grace,
  },
  closed,
)

const SourceSecretOut = Type.Object({
  secret: nullable(text('The secret that Sluice made, shown once; null when you gave it.')),
})

const SourceTokenRotateIn = Type.Object({ gracePeriodSeconds: grace }, closed)

/** Reading a request is no change, and its body is not written to the audit log. */
const trial = { ...admin, audited: 'none' } as const

export const sources = {
  tag: 'Source',
  description: 'A URL that takes webhooks of another service in, verifies them, and publishes them.',
  schemas: {
    SourceIn,
    SourcePatch,
    SourceOut,
    SourceCreatedOut,
    SourceSummaryOut,
    SourceSecretRotateIn,
    SourceSecretOut,
    SourceTokenRotateIn,
    SourceTestIn,
    SourceTestOut,
    ArrivalSamplesOut,
  },
  routes: [
    route('GET /source', read, {
      id: 'v1.source.list-all',
      summary: 'List the sources of all applications',
      query: PageQuery,
      answers: { 200: listOf(SourceSummaryOut) },
      handle: async ({ query, request }, services) => {
        const { data, ...page } = await listAll(services, request, query)
        return { ...page, data: data.map(({ shown }) => shown) }
      },
    }),
    route('GET /app/:app/source', read, {
      id: 'v1.source.list',
      summary: 'List the sources of an application',
      query: PageQuery,
      answers: { 200: listOf(SourceOut) },
      handle: async ({ app, query, request }, services) => {
        const page = await pageOfSources(services, app.key, query)
        return { ...page, data: await showAll(services, request, page.data) }
      },
    }),
    route('POST /app/:app/source', admin, {
      id: 'v1.source.create',
      summary: 'Create a source: a URL that takes webhooks of another service in',
      description:
        'The answer has the URL to give to the provider. Arrivals are verified as the provider describes, and published with their bytes and content type as they came.',
      body: SourceIn,
      answers: { 201: SourceCreatedOut },
      answersSecret: true,
      handle: async ({ app, body, request }, services) => {
        const { store, limits } = services
        const { provider } = body
        const settings = withoutNulls(body.settings ?? {})
        const [secret, made] = secretOf(provider, body.secret ?? null, services)
        const secrets = secret === null ? [] : [secret]
        refuseIf(sourceProblems(provider, settings, secrets, body.metadata))
        refuseIf(keysUrlProblems(settings, services))
        const input = {
          ...toNew(noun, { ...body, name: body.name ?? providers[provider].title, settings }),
          secrets: secrets.map((each) => ({ secret: each, expiresAt: null })),
        }
        const created = await store.createSource(app.key, input, tokenOf(services), limits.maxSourcesPerApp)
        return { ...(await showSource(services, request, created)), secret: made }
      },
    }),
    route(`GET ${one}`, read, {
      id: 'v1.source.get',
      summary: 'Get a source, and how many requests arrived at it',
      answers: { 200: SourceOut },
      handle: ({ source, request }, services) => showSource(services, request, source),
    }),
    route(`PATCH ${one}`, admin, {
      id: 'v1.source.patch',
      summary: 'Change some fields of a source',
      description:
        'Absent fields stay. `settings` replaces all settings; a secret one that is absent stays. A change works within a second.',
      body: SourcePatch,
      answers: { 200: SourceOut },
      handle: async ({ source, body, request }, services) => {
        const changed = await services.store.updateSource(source.app, source.key, (stored) => {
          const { settings: given, ...rest } = body
          refuseDamagedSource(stored, given !== undefined)
          const settings = given === undefined ? stored.settings : changedSettings(stored, given)
          refuseIf(problemsOf(stored, settings, stored.secrets, body.metadata))
          refuseIf(keysUrlProblems(settings, services, stored))
          return { ...rest, ...(given !== undefined && { settings }) }
        })
        return showSource(services, request, found(changed, 'source', source.id))
      },
    }),
    route(`DELETE ${one}`, admin, {
      id: 'v1.source.delete',
      summary: 'Delete a source',
      description: 'Its URL answers 404 within a second. Messages that arrived at it stay.',
      answers: { 204: null },
      handle: ({ source: { app, key } }, { store }) => store.deleteSource(app, key),
    }),
    route(`POST ${one}/token/rotate`, admin, {
      id: 'v1.source.rotate-token',
      summary: 'Give a source a new URL',
      description: 'The old URL works for the grace period, two days by default.',
      body: SourceTokenRotateIn,
      answers: { 200: SourceOut },
      answersSecret: true,
      handle: async ({ source, body, request }, services) =>
        showSource(services, request, await rotateToken(services, source, body.gracePeriodSeconds ?? graceSeconds)),
    }),
    route(`POST ${one}/secret/rotate`, admin, {
      id: 'v1.source.rotate-secret',
      summary: 'Change the secret of a source',
      description: 'The old secret counts beside the new one for the grace period, two days by default.',
      body: SourceSecretRotateIn,
      answers: { 200: SourceSecretOut },
      answersSecret: true,
      handle: async ({ source, body }, services) => {
        const provider = providerOf(source)
        const [secret, made] = secretOf(provider, body.secret ?? null, services)
        if (secret === null) refuseIf([{ at: ['body', 'secret'], message: missingSecret(provider), type: 'required' }])
        const graceMs = (body.gracePeriodSeconds ?? graceSeconds) * 1000
        await change(services, source, (stored, now) => {
          const secrets = rotated(stored.secrets, secret ?? '', now, graceMs) ?? []
          refuseIf(problemsOf(stored, stored.settings, secrets, undefined))
          return { secrets }
        })
        return { secret: made }
      },
    }),
    route(`GET ${one}/sample`, admin, {
      id: 'v1.source.list-samples',
      summary: 'List the newest refused requests of a source, and why they were refused',
      description:
        'The newest `refusedSamples` (20 by default), at most one for each second, kept for a week. Values of secrets and signatures are left out.',
      answers: { 200: ArrivalSamplesOut },
      handle: async ({ source }, { store, limits }) => {
        const samples = await store.arrivalSamples(source.key, limits.refusedSamples)
        return { data: samples.map(toSampleOut) }
      },
    }),
    route(`POST ${one}/test`, trial, {
      id: 'v1.source.test',
      summary: 'Judge a request without storing anything',
      description: 'For a request that you wrote or copied: whether the source would accept it, or why not.',
      body: SourceTestIn,
      answers: { 200: SourceTestOut },
      handle: async ({ app, source, body, request }, services) => {
        const { method = 'POST', headers = {}, bodyBase64 } = body
        const bytes = bodyBase64 === undefined ? Buffer.from(body.body ?? '') : Buffer.from(bodyBase64, 'base64')
        const url = body.url ?? (await showSource(services, request, source)).url ?? ''
        const lower = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
        const arrival = { method, url, headers: Object.fromEntries(lower), body: bytes }
        return toTestOut(await services.arrivals.try({ ...source, appId: app.id }, arrival))
      },
    }),
  ],
} satisfies Noun

function providerOf({ id, provider }: Source): ProviderName {
  if (isProviderName(provider)) return provider
  throw new AppError('damaged_record', `This version of Sluice does not know the provider ${provider} of ${id}.`)
}

function problemsOf(
  source: Source,
  settings: Source['settings'],
  secrets: Source['secrets'],
  metadata: Source['metadata'] | undefined,
): FieldError[] {
  if (source.damaged === true) return []
  const texts = secrets.map(({ secret }) => secret)
  return sourceProblems(providerOf(source), settings, texts, metadata)
}

/** The new settings, with the secret ones that are absent as they are. */
function changedSettings(source: Source, given: Record<string, unknown>): Source['settings'] {
  const { settings } = providers[providerOf(source)]
  const kept = Object.entries(source.settings).filter(
    ([name]) => settings[name]?.sensitive === true && !Object.hasOwn(given, name),
  )
  return { ...Object.fromEntries(kept), ...withoutNulls(given) }
}

function withoutNulls(settings: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== null))
}

const secretBytes = 32

/** The secret to store, and the same if Sluice made it. Hex digits are a text, hex and base64 at the same time. */
function secretOf(
  provider: ProviderName,
  given: string | null,
  { randomBytes }: Pick<Services, 'randomBytes'>,
): readonly [secret: string | null, made: string | null] {
  if (given !== null || providers[provider].secret?.origin !== 'chosen') return [given, null]
  const made = Buffer.from(randomBytes(secretBytes)).toString('hex')
  return [made, made]
}
