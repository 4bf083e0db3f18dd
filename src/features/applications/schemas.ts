import { type Static, type TSchema, Type } from 'typebox'
import type { FieldError } from '../../domain/app-error.ts'
import { type New, toChange, toNew, toReplacement } from '../../noun/noun.ts'
import { schemasOf, toShown } from '../../noun/schemas.ts'
import { closed, id, integer, maybe, nullable, optional, whole } from '../../operations/fields.ts'
import type { Out } from '../../operations/route.ts'
import type { NewApplication } from '../../store/store.ts'
import { headerNamePattern, isContentTypeHeader, isReservedHeader } from '../../wire/headers.ts'
import { type Application, application, type SignatureFamily, signatureFamilies } from './noun.ts'

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

const { made, changed, shown } = schemasOf(application, {
  signatureHeaders: { given: SignatureHeadersIn, shown: familyOr(Type.Object(signatureNames(Type.String()))) },
})
const older = { rateLimit: maybe(integer(1, 1_000_000), "Svix's older name for `throttleRate`.") }

export const ApplicationIn = Type.Object({ ...made, ...older }, closed)
export type ApplicationIn = Static<typeof ApplicationIn>

/** Changes an application: absent fields stay, null unsets. */
export const ApplicationPatch = Type.Object({ ...changed, ...older }, closed)
export type ApplicationPatch = Static<typeof ApplicationPatch>

export const ApplicationOut = Type.Object({
  id,
  ...shown,
  rateLimit: nullable(whole("Svix's older name for throttleRate.")),
})

/** The fields that a request sets, as the store names them. */
export function toApplicationChange(input: ApplicationPatch): Partial<NewApplication> {
  return toChange(application, plain(input))
}

/** The fields that replacing sets; without a uid the present one stays. */
export function toApplicationReplacement(input: ApplicationIn): Partial<NewApplication> {
  return toReplacement(application, plain(input))
}

export function toNewApplication(input: ApplicationIn): NewApplication {
  return toNew(application, plain(input))
}

/** The same fields without Svix's older name, and with nothing else that may have been sent along in the names of headers. */
function plain<Input extends ApplicationPatch>({ rateLimit, ...input }: Input): Omit<Input, 'rateLimit'> {
  const { signatureHeaders, throttleRate = rateLimit } = input
  const names = namesIn(signatureHeaders)
  const named = names.length === 0 ? null : Object.fromEntries(names)
  return {
    ...input,
    ...(throttleRate !== undefined && { throttleRate }),
    ...(signatureHeaders !== undefined && {
      signatureHeaders: typeof signatureHeaders === 'string' ? signatureHeaders : named,
    }),
  }
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

export function toApplicationOut(stored: Application): Out<typeof ApplicationOut> {
  const { id, throttleRate, settings } = stored
  const all = toShown(application, { ...stored, settings: settings as New<typeof application>['settings'] })
  return { id, ...all, rateLimit: throttleRate }
}
