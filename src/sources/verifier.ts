import type { KeyObject } from 'node:crypto'
import { AppError } from '../domain/app-error.ts'
import type { EpochMs } from '../domain/clock.ts'
import type { Compute } from '../domain/turns.ts'
import {
  type Arrival,
  type ArrivalHead,
  genuine,
  headerOf,
  isOneOf,
  type Judgement,
  type Proof,
  parameterOf,
  refused,
  type Unavailable,
  unavailable,
} from './arrival.ts'
import { eventValues, GenuineRequest } from './event-values.ts'
import { type KeySets, readKeySet } from './key-sets.ts'
import { metaChallenge, type ProviderName, providers } from './providers.ts'
import type { JwtScheme, tokenPlaces } from './schemes.ts'
import { completed, keyOf, type Settings, settingsProblems } from './settings.ts'
import { type HmacScheme, hmacCheck, type KeyCheck, separators, standardCheck, twilioCheck } from './signatures.ts'

/** A source as far as its verifier goes. */
interface VerifiedSource {
  readonly provider: ProviderName
  /** As the owner gave them; the defaults of the provider apply. */
  readonly settings: Settings
  /** The newest first. An expired secret does not count. */
  readonly secrets: readonly { readonly secret: string; readonly expiresAt: EpochMs | null }[]
}

export interface VerifierDeps {
  /** One for all verifiers of a process. */
  readonly keySets: KeySets
  /** Hashes bodies. */
  readonly compute: Compute
}

/** The judge of the requests of one source. */
export interface Verifier {
  /** Why the request cannot be verified now, whatever its body holds; undefined when it can. Never rejects. */
  unready(head: ArrivalHead, nowMs: EpochMs): Promise<Unavailable | undefined>
  /** Never rejects, whatever arrives. */
  judge(arrival: Arrival, nowMs: EpochMs): Promise<Judgement>
}

/**
 * Opens the verifier of a source. Keys are prepared here, once, so a source keeps its verifier until it changes. Throws
 * AppError when the settings or the secrets are not valid.
 */
export function openVerifier(source: VerifiedSource, deps: VerifierDeps): Verifier {
  const { provider: name, secrets } = source
  const problems = settingsProblems(
    name,
    source.settings,
    secrets.map(({ secret }) => secret),
  )
  if (problems.length > 0) throw new AppError('validation', 'The settings of the source are not valid.', problems)
  const provider = providers[name]
  const settings = completed(name, source.settings)
  const prover = proverOf(name, settings, secrets, deps)
  const values = eventValues(
    settings.eventType as readonly string[],
    (settings.eventId as readonly string[] | null) ?? [],
  )

  const lacksSecret = provider.secret?.required === true && secrets.length === 0
  // The handshake by GET needs no secret.
  const isSecretless = (method: string) => lacksSecret && method !== 'GET'

  return {
    async unready(head, nowMs) {
      return isSecretless(head.method) ? secretless : prover.unready?.(head, nowMs)
    },
    async judge(arrival, nowMs) {
      const { method } = arrival
      if (!provider.methods.some((each) => each === method)) {
        return refused('wrong_method', `The source takes ${provider.methods.join(' and ')} alone.`)
      }
      if (method === 'GET') return metaChallenge(arrival, String(settings.verifyToken))
      if (isSecretless(method)) return secretless
      const proof = await prover.prove(arrival, nowMs)
      if (proof.kind !== 'genuine') return proof
      const answer = provider.handshake?.(arrival)
      if (answer !== undefined) return { kind: 'answer', answer }
      const request = new GenuineRequest(arrival, proof)
      return {
        kind: 'event',
        eventId: values.idOf(request),
        eventType: values.typeOf(request) ?? name,
        contentType: contentTypeOf(arrival),
      }
    },
  }
}

/** The sender tries again later, so that an event from before the secret is set is not lost. */
const secretless = unavailable('The source has no secret yet.', 60_000)

/** The verifier of a source whose stored secrets or settings cannot be read. */
export const unreadable: Verifier = { unready: async () => damaged, judge: async () => damaged }

const damaged = unavailable('The stored secrets of the source cannot be opened.', 60_000)

/** The content type as it came, which goes out again; a general one when it is missing or cannot be sent. */
function contentTypeOf(arrival: Arrival): string {
  const value = headerOf(arrival, 'content-type') ?? ''
  return value.length <= 256 && /^[!-~][ -~]*$/.test(value) ? value : 'application/octet-stream'
}

interface Prover {
  prove(arrival: Arrival, nowMs: EpochMs): Proof | Promise<Proof>
  /** Absent when the keys are always there. */
  unready?(head: ArrivalHead, nowMs: EpochMs): Promise<Unavailable | undefined>
}

/** The settings are complete and valid. */
function proverOf(
  name: ProviderName,
  settings: Settings,
  secrets: VerifiedSource['secrets'],
  { keySets, compute }: VerifierDeps,
): Prover {
  const current = <T extends { readonly expiresAt: EpochMs | null }>(list: readonly T[], nowMs: EpochMs) =>
    list.filter(({ expiresAt }) => expiresAt === null || expiresAt > nowMs)
  const texts = (nowMs: EpochMs) => current(secrets, nowMs).map(({ secret }) => secret)
  const byText = (check: TextCheck): Prover => ({ prove: (arrival, nowMs) => check(arrival, texts(nowMs)) })
  const byKey = (check: KeyCheck): Prover => {
    const keys = secrets.map((each) => ({ ...each, key: keyOf(name, settings, each.secret) as KeyObject }))
    const usable = (nowMs: EpochMs) => current(keys, nowMs).map(({ key }) => key)
    return { prove: (arrival, nowMs) => check(arrival, usable(nowMs), nowMs) }
  }
  const toleranceSeconds = Number(settings.toleranceSeconds)

  switch (name) {
    case 'github':
    case 'stripe':
    case 'shopify':
    case 'slack':
    case 'meta':
      return byKey(hmacCheck({ ...(providers[name].hmac as HmacScheme), toleranceSeconds }, compute))
    case 'standard':
      return byKey(standardCheck(toleranceSeconds, compute))
    case 'twilio':
      return byKey(twilioCheck(compute))
    case 'hmac':
      return byKey(hmacCheck(ownScheme(settings, toleranceSeconds), compute))
    case 'jwt': {
      const scheme = jwtScheme(settings, toleranceSeconds)
      // Only processes that a token reaches load jose.
      const check = async () => (await import('./jwt.ts')).jwtCheck(scheme, keySets, compute)
      return {
        unready: async (head, nowMs) => (await check()).unready(head, nowMs),
        prove: async (arrival, nowMs) => (await check()).prove(arrival, texts(nowMs), nowMs),
      }
    }
    case 'basic':
      return byText(basicCheck(String(settings.username)))
    case 'token': {
      const place = settings.tokenPlace as (typeof tokenPlaces)[number]
      return byText(tokenCheck(place, String(settings.tokenName), String(settings.prefix)))
    }
    case 'none':
      return { prove: () => genuine }
  }
}

/** Judges a request by texts that its sender shows as they are. */
type TextCheck = (arrival: Arrival, secrets: readonly string[]) => Proof

/** Basic authentication. The secret is the password. */
function basicCheck(username: string): TextCheck {
  return (arrival, secrets) => {
    const [, encoded] = /^basic +([A-Za-z0-9+/]+={0,2})$/i.exec(headerOf(arrival, 'authorization') ?? '') ?? []
    if (encoded === undefined) return refused('not_signed', 'The header authorization with Basic is missing.')
    return isOneOf(
      secrets.map((secret) => `${username}:${secret}`),
      Buffer.from(encoded, 'base64').toString('utf8'),
    )
      ? genuine
      : refused('wrong_signature', 'The user name or the password is wrong.')
  }
}

/** A token in a header or in the query. The secret is the token. */
function tokenCheck(place: (typeof tokenPlaces)[number], name: string, prefix: string): TextCheck {
  const where = place === 'header' ? `header ${name}` : `parameter ${name} of the URL`
  // Most senders put the word in front of a token there, whether or not they say so.
  const optional =
    place === 'header' && prefix === '' && name.toLowerCase() === 'authorization' ? /^bearer +/i : undefined
  return (arrival, secrets) => {
    const found = place === 'header' ? headerOf(arrival, name.toLowerCase()) : parameterOf(arrival, name)
    if (found === undefined) return refused('not_signed', `The ${where} is missing.`)
    const token = found.slice(prefix.length).trimStart()
    const isKnown = isOneOf(secrets, token) || (optional !== undefined && isOneOf(secrets, found.replace(optional, '')))
    return found.startsWith(prefix) && isKnown
      ? genuine
      : refused('wrong_signature', `The ${where} has no token of the source.`)
  }
}

/** The scheme that the settings of `hmac` describe. */
function ownScheme(settings: Settings, toleranceSeconds: number): HmacScheme {
  const { separator, timestampHeader, idHeader } = settings as Readonly<Record<string, string | null>>
  const scheme = settings as unknown as Pick<HmacScheme, 'hash' | 'encoding' | 'prefix' | 'timestampUnit' | 'signed'>
  return {
    header: String(settings.header).toLowerCase(),
    hash: scheme.hash,
    encoding: scheme.encoding,
    prefix: scheme.prefix,
    signed: scheme.signed,
    ...(scheme.timestampUnit !== undefined && { timestampUnit: scheme.timestampUnit }),
    ...(separator != null && { separator: separators[separator as keyof typeof separators] }),
    ...(timestampHeader != null && { timestamp: { header: timestampHeader.toLowerCase() }, toleranceSeconds }),
    ...(idHeader != null && { idHeader: idHeader.toLowerCase() }),
  }
}

function jwtScheme(settings: Settings, toleranceSeconds: number): JwtScheme {
  const scheme = settings as unknown as Omit<JwtScheme, 'keys'> & {
    readonly jwksUrl: string | null
    keys: string | null
  }
  const inline = scheme.keys === null ? undefined : readKeySet(scheme.keys)
  return {
    ...scheme,
    header: scheme.header.toLowerCase(),
    keys: scheme.jwksUrl !== null ? { url: scheme.jwksUrl } : inline === undefined ? null : { inline },
    toleranceSeconds,
  }
}
