import { apiRoot } from '../../domain/api.ts'
import type { EpochMs } from '../../domain/clock.ts'
import { boolean, display, object, text } from '../../domain/field.ts'
import { flag, type New, noun, type State, sealed, type Thing, value } from '../../noun/noun.ts'
import { metadataField, uidField } from '../../noun/shared-fields.ts'
import type { Secret } from '../endpoints/rules.ts'
/** A URL that takes webhooks of a provider in and publishes them as messages of its application. */
export const source = noun({
  name: 'source',
  table: 'source',
  prefix: 'src',
  owner: 'application',
  examples: {
    uid: 'repository',
    of: {
      create: { body: { provider: 'github', uid: 'repository', name: 'The repository' } },
      patch: { body: { name: 'The main repository', disabled: false } },
      'rotate-token': { body: { gracePeriodSeconds: 86_400 } },
      'rotate-secret': { body: { secret: 'another app secret', gracePeriodSeconds: 86_400 } },
    },
  },
  limit: { most: 100, things: 'sources', setting: 'maxSourcesPerApp' },
  fields: {
    uid: uidField('src'),
    name: {
      kind: display(256),
      fallback: '',
      noNull: true,
      flag: '--display-name <TEXT>',
      description: 'Display name; the title of the provider by default.',
      help: 'display name (default: the name of the provider)',
    },
    // Requests name one of the table of providers, which declarations do not know.
    provider: {
      kind: text(),
      required: true,
      fixed: true,
      description: `Sender of the webhooks, as \`GET ${apiRoot}/source-provider\` lists them.`,
    },
    // As the provider's row of the table describes them. Answers have them without secrets; each has a flag of its own.
    settings: {
      kind: object<Readonly<Record<string, unknown>>>(),
      fallback: {},
      noNull: true,
      sealed: true,
      hidden: true,
      description: 'Settings of the provider by name. Null and absent settings have the default of the provider.',
    },
    disabled: {
      kind: boolean,
      fallback: false,
      noNull: true,
      flag: '--disabled <SWITCH>',
      description: 'Whether arrivals are answered 404, as if there were no such source.',
      help: 'on: answer 404 to all arrivals',
    },
    metadata: metadataField,
  },
  state: {
    /** The secrets that verify arrivals, the newest first. */
    secrets: sealed<readonly Secret[]>([]),
    /** The tokens of its URL, the newest first. */
    tokens: sealed<readonly Secret[]>([]),
    /** The type under which `svix.ingest` created the source; null for a source of the own API. */
    ingestType: value<string | null>(),
    /** The application was made for this source, and is deleted with it. */
    ownsApp: flag,
  },
})

/** A source as it is stored. Damaged: its settings, secrets and tokens do not open, so nothing can arrive. */
export type Source = Thing<typeof source>
export type NewSource = New<typeof source> &
  Pick<Source, 'secrets'> &
  Partial<Pick<State<typeof source>, 'ingestType' | 'ownsApp'>>

export type ChangedFields = Partial<Omit<NewSource, 'ingestType' | 'ownsApp'> & Pick<Source, 'tokens' | 'ingestType'>>
export type SourceChange = ChangedFields | ((source: Source, now: EpochMs) => ChangedFields)

export interface ArrivingSource extends Source {
  /** Its application's id. */
  readonly appId: string
}
