import { createSecretKey, type KeyObject } from 'node:crypto'
import type { FieldError } from '../domain/app-error.ts'
import type { SimpleForm } from '../domain/field.ts'
import { isHeaderName } from '../wire/headers.ts'
import { valueTemplatesProblem } from './event-values.ts'
import { readKeySet } from './key-sets.ts'
import type { Provider, Setting } from './provider.ts'
import { type ProviderName, providers } from './providers.ts'
import { signedParts, standardKey } from './signatures.ts'

/** The settings that a source gives, by name. */
export type Settings = Readonly<Record<string, unknown>>

/** Secrets of one source that count at once, the newest and those it replaced. Each is tried with every request. */
const secretsLimit = 4
const secretLength = 512

/** The settings of a source with the defaults of its provider. */
export function completed(name: ProviderName, given: Settings): Settings {
  const { settings, signedId }: Provider = providers[name]
  const own = (key: string) => (Object.hasOwn(given, key) ? given[key] : null) ?? null
  const derived = (key: string) => (key === 'eventId' ? signedId?.(given) : undefined)
  const entries = Object.entries(settings).map(([key, { fallback }]) => [key, own(key) ?? derived(key) ?? fallback])
  return Object.fromEntries(entries)
}

/**
 * The header that carries the proof of the sender, where a setting gives its name, in lower case. Its value is a secret: a
 * token, a JWT or a signature.
 */
export function proofHeader(name: ProviderName, given: Settings): string | undefined {
  const { header, tokenPlace, tokenName } = completed(name, given)
  const named = tokenPlace === 'header' ? tokenName : header
  return typeof named === 'string' ? named.toLowerCase() : undefined
}

const hmacHeaders: ReadonlySet<string> = new Set(Object.values(providers).flatMap(({ hmac }) => hmac?.header ?? []))

/** Whether a provider signs in the header of this name, which is in lower case. */
export function isSignatureHeader(name: string): boolean {
  return hmacHeaders.has(name)
}

/** All problems of a source's settings; none when a verifier can be opened with them. Null is no value. */
export function settingsProblems(name: ProviderName, given: Settings, secrets: readonly string[]): FieldError[] {
  const { settings, secret } = providers[name]
  const unknown = Object.keys(given)
    .filter((key) => !Object.hasOwn(settings, key))
    .map((key) => problem(key, `is no setting of ${name}`, 'additionalProperties'))
  const own = Object.entries(settings).flatMap(([key, setting]) => {
    const value = Object.hasOwn(given, key) ? (given[key] ?? null) : null
    if (value === null) return setting.required === true ? [problem(key, 'is required', 'required')] : []
    const text = valueProblem(key, setting, value)
    return text === undefined ? [] : [problem(key, text, 'setting')]
  })
  const wrong = [...unknown, ...own]
  if (wrong.length > 0) return wrong
  const whole = completed(name, given)
  return [...secretProblems(secret, name, whole, secrets), ...wholeProblems(name, whole, secrets.length)]
}

function problem(setting: string, message: string, type: string): FieldError {
  return { at: ['body', 'settings', setting], message, type }
}

/** The problem of one value; undefined when there is none. */
function valueProblem(key: string, { kind }: Setting, value: unknown): string | undefined {
  const shape = kind.is === 'object' ? undefined : formProblem(kind, value)
  if (shape !== undefined) return shape
  if (/header$/i.test(key) && !isHeaderName(String(value))) return 'must be the name of a header'
  if (key === 'eventType' || key === 'eventId') {
    return valueTemplatesProblem(value as readonly string[])
  }
  return undefined
}

function formProblem(form: SimpleForm, value: unknown): string | undefined {
  switch (form.is) {
    case 'text': {
      const { min = 0, max = 65_536 } = form
      const fits = typeof value === 'string' && value.isWellFormed() && value.length >= min && value.length <= max
      return fits ? undefined : `must be a text of ${min} to ${max} characters`
    }
    case 'integer':
    case 'duration': {
      const fits = Number.isInteger(value) && Number(value) >= form.min && Number(value) <= form.max
      return fits ? undefined : `must be a whole number from ${form.min} to ${form.max}`
    }
    case 'choice':
      return form.words.includes(value as string) ? undefined : `must be one of ${form.words.join(', ')}`
    case 'boolean':
      return typeof value === 'boolean' ? undefined : 'must be true or false'
    case 'list': {
      if (!Array.isArray(value) || value.length === 0 || value.length > form.max) {
        return `must be a list of 1 to ${form.max} values`
      }
      return value.map((each) => formProblem(form.of, each)).find((text) => text !== undefined)
    }
    default:
      throw new Error(`No setting of a provider is of the kind ${form.is}.`)
  }
}

function secretProblems(
  need: Provider['secret'],
  name: ProviderName,
  settings: Settings,
  secrets: readonly string[],
): FieldError[] {
  const wrong = (message: string): FieldError[] => [{ at: ['body', 'secret'], message, type: 'secret' }]
  if (need === undefined) return secrets.length === 0 ? [] : wrong(missingSecret(name))
  // Some providers show their secret only once they know the URL, so it may come later.
  if (secrets.length === 0) return need.required && need.origin === 'chosen' ? wrong(missingSecret(name)) : []
  if (secrets.length > secretsLimit) return wrong(`may be at most ${secretsLimit} at once`)
  const { least, form } = need
  if (secrets.some((secret) => secret.length < least || secret.length > secretLength || !secret.isWellFormed())) {
    return wrong(`must be a text of ${least} to ${secretLength} characters`)
  }
  if (secrets.every((secret) => keyOf(name, settings, secret) !== undefined)) return []
  const asked = form === 'standard' ? 'whsec_ and base64, or whpk_ and a public key in base64' : settings.secretEncoding
  return wrong(`must be ${asked}`)
}

/** The problem of a source that lacks a secret which Sluice cannot make. */
export function missingSecret(name: ProviderName): string {
  const { title, secret } = providers[name]
  return secret === undefined ? `is not used by ${name}` : `is required: ${title} calls it "${secret.name}"`
}

/** The key of a secret; undefined when the text is none. */
export function keyOf(name: ProviderName, settings: Settings, secret: string): KeyObject | undefined {
  if (providers[name].secret?.form === 'standard') return standardKey(secret)
  const bytes = secretBytes(secret, String(settings.secretEncoding ?? 'text'))
  return bytes === undefined || bytes.length === 0 ? undefined : createSecretKey(bytes)
}

/** `Buffer.from` would skip wrong characters. */
function secretBytes(secret: string, encoding: string): Buffer | undefined {
  if (encoding === 'hex') return /^([0-9a-f]{2})+$/i.test(secret) ? Buffer.from(secret, 'hex') : undefined
  if (encoding === 'base64') return /^[A-Za-z0-9+/]+={0,2}$/.test(secret) ? Buffer.from(secret, 'base64') : undefined
  return Buffer.from(secret)
}

/** Problems of values that are right one by one. */
function wholeProblems(name: ProviderName, settings: Settings, secrets: number): FieldError[] {
  const has = (key: string) => settings[key] !== null && settings[key] !== undefined
  switch (name) {
    case 'hmac': {
      const values = signedParts(String(settings.signed))?.flatMap((part) => ('value' in part ? [part.value] : []))
      if (values === undefined || !values.includes('body')) {
        const known = '{timestamp}, {id}, {url} and {method}'
        return [problem('signed', `must have {body}, and braces only around it and ${known}`, 'setting')]
      }
      if (values.includes('timestamp') !== has('timestampHeader')) {
        return [problem('timestampHeader', 'belongs to {timestamp} in signed: give both or none', 'setting')]
      }
      if (values.includes('id') !== has('idHeader')) {
        return [problem('idHeader', 'belongs to {id} in signed: give both or none', 'setting')]
      }
      return []
    }
    case 'jwt':
      return jwtProblems(settings, has, secrets)
    case 'basic':
      return String(settings.username).includes(':') ? [problem('username', 'must not contain a colon', 'setting')] : []
    case 'token':
      return settings.tokenPlace === 'query' || isHeaderName(String(settings.tokenName))
        ? []
        : [problem('tokenName', 'must be the name of a header', 'setting')]
    case 'none':
      return settings.acceptUnsigned === true
        ? []
        : [problem('acceptUnsigned', 'must be true: the source would take every request', 'setting')]
    default:
      return []
  }
}

function jwtProblems(settings: Settings, has: (key: string) => boolean, secrets: number): FieldError[] {
  const ways = Number(has('jwksUrl')) + Number(has('keys')) + Number(secrets > 0)
  if (ways !== 1) return [problem('jwksUrl', 'give one of settings.jwksUrl, settings.keys and a secret', 'setting')]
  if (has('jwksUrl')) {
    const url = String(settings.jwksUrl)
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
      return [problem('jwksUrl', 'must be an http or https URL', 'setting')]
    }
  }
  if (has('keys') && (readKeySet(String(settings.keys))?.length ?? 0) === 0) {
    return [problem('keys', 'must be a JWKS with a public key: {"keys": [{"kty": …}]}', 'setting')]
  }
  const { algorithms } = settings as { readonly algorithms: readonly string[] | null }
  const fits = (name: string) => name.startsWith('HS') === secrets > 0
  if (algorithms !== null && !algorithms.every(fits)) {
    return [
      problem('algorithms', 'must be HS256, HS384 or HS512 with a secret, and others with public keys', 'setting'),
    ]
  }
  return []
}
