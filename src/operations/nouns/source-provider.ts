import { Type } from 'typebox'
import type { SimpleForm } from '../../domain/field.ts'
import type { Provider } from '../../sources/provider.ts'
import { type ProviderName, providerNames, providers } from '../../sources/providers.ts'
import { read } from '../access.ts'
import { flag, nullable, schemaOf, text, whole } from '../fields.ts'
import { type Noun, type Out, route } from '../route.ts'

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
export function settingsSchema(settings: Provider['settings']): Record<string, unknown> {
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
    route({
      method: 'GET',
      path: '/source-provider',
      need: read,
      id: 'v1.source-provider.list',
      summary: 'List the providers of sources',
      description: 'Each with its settings, its secret, and the steps that set it up.',
      answers: { 200: SourceProvidersOut },
      handle: () => ({ data: providerNames.map(toProviderOut) }),
    }),
  ],
} satisfies Noun
