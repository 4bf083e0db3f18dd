import { type Static, type TOptional, type TSchema, type TUnsafe, Type } from 'typebox'
import type { FieldError } from '../../domain/app-error.ts'
import { defined } from '../../domain/field.ts'
import {
  type BodyOf,
  closed,
  createdAt,
  described,
  displayName,
  id,
  inBody,
  integer,
  iso,
  maybe,
  metadata,
  metadataIn,
  nullable,
  optional,
  shown,
  text,
  uid,
  uidOut,
  updatedAt,
  whole,
} from '../../operations/fields.ts'
import type { Out } from '../../operations/route.ts'
import type { NewApplication } from '../../store/store.ts'
import { headerNamePattern, isContentTypeHeader, isReservedHeader } from '../../wire/headers.ts'
import type { Application } from '../endpoints/rules.ts'
import {
  type ApplicationSettings,
  applicationFieldNames,
  applicationFields,
  type SettingsChange,
  type SignatureFamily,
  signatureFamilies,
} from './noun.ts'

const headerName = Type.String({ pattern: headerNamePattern })

/** Names of the signature headers of an application's endpoints. */
const signatureNames = <T extends TSchema>(name: T) => ({
  id: optional(name, 'Replaces `webhook-id`.'),
  timestamp: optional(name, 'Replaces `webhook-timestamp` or `x-sluice-timestamp`.'),
  signature: optional(name, 'Replaces `webhook-signature` or `x-sluice-signature`.'),
})
const families = signatureFamilies.map((family) => Type.Literal(family))
/** A family of names, or names of the application's own. */
const familyOr = <T extends TSchema>(names: T) =>
  Type.Unsafe<SignatureFamily | Static<T>>({ anyOf: [...families, names] })
const SignatureHeadersIn = familyOr(Type.Object(signatureNames(headerName), closed))
const signatureHeadersMeaning =
  "Names of the id and signature headers of the application's endpoints: `webhook`, `svix`, `both`, or names of your own; null for the server's setting."

/** The fields that are stored as settings, in a request and in an answer. */
const settingInputs = inBody(applicationFields) as {
  [Name in keyof BodyOf<typeof applicationFields>]-?: TOptional<TUnsafe<BodyOf<typeof applicationFields>[Name]>>
}
const settingOutputs = Object.fromEntries(
  Object.entries(settingInputs).map(([name, schema]) => [name, shown(schema)]),
) as unknown as { [Name in keyof typeof settingInputs]: TUnsafe<NonNullable<ApplicationSettings[Name]> | null> }

export const ApplicationIn = Type.Object(
  {
    name: described(displayName(4096), 'Display name.'),
    uid: Type.Optional(uid('app')),
    throttleRate: maybe(
      integer(1, 1_000_000),
      'Attempts per second over all endpoints of the application and all workers; unlimited by default.',
    ),
    rateLimit: maybe(integer(1, 1_000_000), "Svix's older name for `throttleRate`."),
    dedupeSeconds: maybe(
      integer(1, 7 * 86_400),
      'Time during which publishing the same message again stores nothing and answers with the first; null to turn it off.',
    ),
    signatureHeaders: maybe(SignatureHeadersIn, signatureHeadersMeaning),
    ...settingInputs,
    metadata: metadataIn,
  },
  closed,
)
export type ApplicationIn = Static<typeof ApplicationIn>

/** Changes an application: absent fields stay, null unsets. */
export const ApplicationPatch = Type.Partial(ApplicationIn, closed)
export type ApplicationPatch = Static<typeof ApplicationPatch>

export const ApplicationOut = Type.Object({
  id,
  uid: uidOut,
  name: text('Display name.'),
  throttleRate: nullable(
    whole('Attempts per second over all endpoints of the application and all workers; null for unlimited.'),
  ),
  rateLimit: nullable(whole("Svix's older name for throttleRate.")),
  dedupeSeconds: nullable(whole('Dedupe window in seconds: the same publish within it stores nothing.')),
  signatureHeaders: nullable(described(familyOr(Type.Object(signatureNames(Type.String()))), signatureHeadersMeaning)),
  ...settingOutputs,
  metadata,
  createdAt,
  updatedAt,
})

/** The fields that a request sets, as the store names them. */
export function toApplicationChange(input: ApplicationPatch): Partial<NewApplication> {
  const { name, uid, metadata, rateLimit, dedupeSeconds } = input
  const throttleRate = input.throttleRate === undefined ? rateLimit : input.throttleRate
  const settings = toSettings(input)
  return defined({ name, uid, throttleRate, dedupeSeconds, metadata, settings })
}

/** The fields that replacing sets; without a uid the present one stays. */
export function toApplicationReplacement(input: ApplicationIn): Partial<NewApplication> {
  const { uid, ...rest } = toNewApplication(input)
  return input.uid === undefined ? rest : { ...rest, uid }
}

export function toNewApplication(input: ApplicationIn): NewApplication {
  return {
    name: input.name,
    uid: input.uid ?? null,
    throttleRate: input.throttleRate ?? input.rateLimit ?? null,
    dedupeSeconds: input.dedupeSeconds ?? null,
    metadata: input.metadata ?? {},
    settings: { ...unsetSettings, ...toSettings(input) },
  }
}

const unsetSettings: SettingsChange = Object.fromEntries(
  ['signatureHeaders', ...applicationFieldNames].map((name) => [name, null]),
)

/** The settings that a request changes; null unsets. */
function toSettings(input: ApplicationPatch): SettingsChange {
  const { signatureHeaders } = input
  const names = namesIn(signatureHeaders)
  const named = names.length === 0 ? null : Object.fromEntries(names)
  const headers = typeof signatureHeaders === 'string' ? signatureHeaders : named
  return defined({
    ...Object.fromEntries(applicationFieldNames.map((name) => [name, input[name]])),
    signatureHeaders: signatureHeaders === undefined ? undefined : headers,
  }) as SettingsChange
}

/** The names that were given, with nothing else that may have been sent along. */
function namesIn(headers: Static<typeof SignatureHeadersIn> | null | undefined): [string, string][] {
  const { id, timestamp, signature } = typeof headers === 'string' ? {} : (headers ?? {})
  return Object.entries({ id, timestamp, signature }).flatMap(([what, name]) =>
    name === undefined ? [] : [[what, name]],
  )
}

/** Problems of the names of headers: reserved names, and two of one name. */
export function signatureHeaderProblems({ signatureHeaders }: ApplicationPatch): FieldError[] {
  const names = namesIn(signatureHeaders)
  return names.flatMap(([what, name], i) => {
    const at = ['body', 'signatureHeaders', what]
    // Names with these prefixes are reserved for signatures, so an application may use them here.
    const free = /^(webhook|svix|x-svix)-/i.test(name) || !(isReservedHeader(name) || isContentTypeHeader(name))
    if (!free) return [{ at, message: 'is a reserved header', type: 'header' }]
    const twice = names.slice(0, i).some(([, other]) => other.toLowerCase() === name.toLowerCase())
    return twice ? [{ at, message: 'is the name of another of them, too', type: 'header' }] : []
  })
}

export function toApplicationOut(application: Application): Out<typeof ApplicationOut> {
  return {
    id: application.id,
    uid: application.uid,
    name: application.name,
    throttleRate: application.throttleRate,
    rateLimit: application.throttleRate,
    dedupeSeconds: application.dedupeSeconds,
    signatureHeaders: application.settings.signatureHeaders ?? null,
    ...(Object.fromEntries(applicationFieldNames.map((name) => [name, application.settings[name] ?? null])) as {
      [Name in keyof typeof settingOutputs]: Static<(typeof settingOutputs)[Name]>
    }),
    metadata: application.metadata,
    createdAt: iso(application.createdAt),
    updatedAt: iso(application.updatedAt),
  }
}
