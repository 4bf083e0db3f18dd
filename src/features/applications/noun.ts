import { boolean, display, type Field, integer, labels, list, name, object, seconds, text } from '../../domain/field.ts'
import { type New, noun, type Thing, within } from '../../noun/noun.ts'
import { metadataField, uidField } from '../../noun/shared-fields.ts'

const day = 86_400

/**
 * The fields of an application that are stored as JSON in its `settings`, so that a new one needs no migration.
 * docs/endpoint-fields.md lists them.
 */
export const applicationFields = {
  defaultRate: {
    kind: integer(1, 1_000_000),
    flag: '--default-rate <NUMBER>',
    description: "Attempts per period at each endpoint without its own rate; the server's setting by default.",
  },
  defaultPeriodSeconds: {
    kind: seconds(1, day),
    flag: '--default-period <DURATION>',
    description: 'Period of `defaultRate`; a second by default.',
  },
  defaultBurst: {
    kind: integer(1, 1_000_000),
    flag: '--default-burst <NUMBER>',
    description:
      'Attempts that may be saved up at each endpoint without its own rate and burst; a tenth of a period by default.',
  },
  headerTemplates: {
    kind: labels,
    flag: '--header-template <NAME=TEMPLATE>',
    description:
      'Header templates of all its endpoints, by name; an endpoint replaces those of the same name. See `headerTemplates` of an endpoint.',
    help: 'a header of every delivery with values such as {eventType}, {attempt} or {deliveryId}',
  },
  maxInFlight: {
    kind: integer(1, 100_000),
    flag: '--max-in-flight <NUMBER>',
    description:
      'Attempts under way at once at all its endpoints together, over all workers; `inFlightPerApp` of each process by default.',
  },
  retentionSeconds: {
    kind: seconds(3600, 3650 * day),
    flag: '--retention <DURATION>',
    description:
      "Time for which its messages and their attempts are kept, shorter or longer than the server's `retention`, which holds by default.",
    help: "how long its messages and their attempts are kept (default: the server's retention)",
  },
  deadRetentionSeconds: {
    kind: seconds(3600, 3650 * day),
    flag: '--dead-retention <DURATION>',
    description:
      "Time for which its dead letters are kept, shorter or longer than the server's `deadRetention`, which holds by default.",
    help: "how long its dead letters are kept (default: the server's deadRetention)",
  },
  payloadRetentionSeconds: {
    kind: seconds(3600, 3650 * day),
    flag: '--payload-retention <DURATION>',
    description:
      'How long payloads are kept, from the instant at which the message is first due; then they are erased, and deliveries that have not succeeded are cancelled. The message and its attempts stay. As long as the message by default; a message can ask for less. It holds for messages published from then on.',
    help: 'how long payloads are kept, if shorter than the messages',
  },
  region: {
    kind: name(128),
    flag: '--region <NAME>',
    description:
      'Region whose workers deliver to its endpoints, unless an endpoint names its own; by default, the region `default`.',
  },
  eraseDelivered: {
    kind: boolean,
    flag: '--erase-delivered',
    description:
      'Whether the payload of a message is erased once all its deliveries have succeeded; the history stays. False by default; it holds for messages published from then on.',
  },
  subjectPointers: {
    kind: list(text(1, 256), 16),
    flag: '--subject-pointer <POINTER>',
    description:
      'JSON pointers to the values in payloads that name data subjects, such as `/user/id`; a `*` stands for every element of an array. A person is found by these values, to be erased or exported. None by default.',
    help: 'JSON pointer to a value that names a data subject, such as /user/id',
  },
} as const satisfies Readonly<Record<string, Field>>

/** Families of names: `webhook-id` and so on as Standard Webhooks has them, `svix-id` and so on, or both side by side. */
export const signatureFamilies = ['webhook', 'svix', 'both'] as const
export type SignatureFamily = (typeof signatureFamilies)[number]

/** A family, or names that replace those of `webhook`. */
export type SignatureHeaders = SignatureFamily | SignatureNames

interface SignatureNames {
  readonly id?: string
  readonly timestamp?: string
  readonly signature?: string
}

/** One tenant: owns endpoints and messages. */
export const application = noun({
  name: 'application',
  table: 'application',
  prefix: 'app',
  fields: {
    uid: uidField('app'),
    name: { kind: display(4096), required: true, description: 'Display name.' },
    throttleRate: {
      kind: integer(1, 1_000_000),
      flag: '--rate <NUMBER>',
      description: 'Attempts per second over all endpoints of the application and all workers; unlimited by default.',
      shown: 'Attempts per second over all endpoints of the application and all workers; null for unlimited.',
      help: 'attempts a second, over all its endpoints',
    },
    dedupeSeconds: {
      kind: seconds(1, 7 * day),
      column: 'dedupe_s',
      description:
        'Time during which publishing the same message again stores nothing and answers with the first; null to turn it off.',
      shown: 'Dedupe window in seconds: the same publish within it stores nothing.',
    },
    metadata: metadataField,
    signatureHeaders: {
      kind: object<SignatureHeaders>(),
      in: 'settings',
      description:
        "Names of the id and signature headers of the application's endpoints: `webhook`, `svix`, `both`, or names of your own; null for the server's setting.",
    },
    ...within('settings', applicationFields),
  },
})

type Settings = New<typeof application>['settings']

/** The settings of an application, which hold for all its endpoints; an absent one is not set. */
export type ApplicationSettings = { readonly [Name in keyof Settings]?: NonNullable<Settings[Name]> }

/** A change of settings: absent ones stay, null unsets. */
export type SettingsChange = Partial<Settings>

export type Application = Omit<Thing<typeof application>, 'settings'> & { readonly settings: ApplicationSettings }

export function changedSettings(before: ApplicationSettings, change: SettingsChange = {}): ApplicationSettings {
  const all = Object.entries({ ...before, ...change })
  return Object.fromEntries(all.filter(([, value]) => value != null))
}
