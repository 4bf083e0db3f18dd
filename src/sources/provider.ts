import { type Field, list, seconds, text } from '../domain/field.ts'
import type { Answer, Arrival } from './arrival.ts'
import { templateLength, templatesLimit, type ValueTemplate } from './event-values.ts'
import type { HmacScheme } from './signatures.ts'

/** A setting of a source, by its provider. */
export interface Setting extends Field {
  /** The value of a source that sets none. Null is no value. */
  readonly fallback: unknown
  readonly required?: true
  /** It is stored sealed and never shown again. */
  readonly sensitive?: true
}

/** The secret of a source. */
interface SecretNeed {
  /** `given` by the provider; `chosen` by the owner of the source, so that Sluice makes one when none is given. */
  readonly origin: 'given' | 'chosen'
  readonly required: boolean
  /** `text`: its bytes are the key. `standard`: `whsec_` and base64, or `whpk_` and a public ed25519 key. */
  readonly form: 'text' | 'standard'
  /** The shortest secret, in characters. */
  readonly least: number
  /** The name that the provider has for it. */
  readonly name: string
}

/** The usual secret: a text that the provider gives. */
export const givenSecret = {
  origin: 'given',
  required: true,
  form: 'text',
  least: 1,
} as const satisfies Partial<SecretNeed>

/** A sender of webhooks that Sluice knows. Validation, API, flags, forms and docs/sources.md follow from its row. */
export interface Provider {
  readonly title: string
  /** One sentence about how requests are verified. */
  readonly description: string
  readonly settings: Readonly<Record<string, Setting>>
  /** None when the provider needs no secret at all. */
  readonly secret?: SecretNeed
  /** How it signs, when a shared secret and nothing else is behind it. */
  readonly hmac?: HmacScheme
  /** Its handshake, when that is signed like an event. Undefined for an event. */
  readonly handshake?: (arrival: Arrival) => Answer | undefined
  /** Templates of the event id from what a source's settings say is signed, where it sets none; undefined for the usual ones. */
  readonly signedId?: (settings: Readonly<Record<string, unknown>>) => readonly ValueTemplate[] | undefined
  /** The treatment of a recorded request that is sent again, as the end of a sentence. */
  readonly recorded: string
  /** The methods that its requests have. */
  readonly methods: readonly ('POST' | 'GET')[]
  /** The answer to a stored event; without one, 202 with the id of the message. */
  readonly accepted?: Answer
  /** Where the URL and the secret go at the provider, step by step, in Markdown without links. */
  readonly steps: readonly string[]
  /** A limit that its users must know, in Markdown. */
  readonly note?: string
  /** The page of the provider about it. */
  readonly reference?: string
}

const day = 86_400
/** A longer window of time is no protection. */
const toleranceLimit = day
const templates = list(text(1, templateLength), templatesLimit)

interface ProviderRow extends Omit<Provider, 'settings' | 'methods'> {
  readonly methods?: Provider['methods']
  readonly eventType: readonly ValueTemplate[]
  readonly eventId: readonly ValueTemplate[] | null
  /** For providers that sign a timestamp. */
  readonly toleranceSeconds?: number
  /** How long the provider tries an event again. */
  readonly replayWindowSeconds: number
  readonly settings?: Readonly<Record<string, Setting>>
}

/** A provider with the settings that every source has, at the defaults of the row. */
export function provider({
  eventType,
  eventId,
  toleranceSeconds,
  replayWindowSeconds,
  settings,
  methods,
  ...rest
}: ProviderRow): Provider {
  return {
    ...rest,
    methods: methods ?? ['POST'],
    settings: {
      ...settings,
      ...(toleranceSeconds !== undefined && {
        toleranceSeconds: {
          kind: seconds(1, toleranceLimit),
          fallback: toleranceSeconds,
          flag: '--tolerance <DURATION>',
          description: 'Largest distance of the signed time from now, in either direction.',
        },
      }),
      eventType: {
        kind: templates,
        fallback: eventType,
        flag: '--event-type <TEMPLATE>',
        description:
          'Event type: `{header:NAME}`, `{/json/pointer}`, `{form:NAME}` and other text. The first template whose values are all there is used; without one, the name of the provider.',
      },
      eventId: {
        kind: templates,
        fallback: eventId,
        flag: '--event-id <TEMPLATE>',
        description: 'Id by which an event that comes again is known: templates like those of the event type.',
      },
      replayWindowSeconds: {
        kind: seconds(0, 30 * day),
        fallback: replayWindowSeconds,
        flag: '--replay-window <DURATION>',
        description: 'How long an event with the same id counts as the same event.',
      },
    },
  }
}
