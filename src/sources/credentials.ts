import { createHash } from 'node:crypto'
import { type Arrival, genuine, headerOf, isSameText, type Proof, refused } from './arrival.ts'

/** Judges a request by texts that its sender shows as they are. */
export type TextCheck = (arrival: Arrival, secrets: readonly string[]) => Proof

/** Basic authentication. The secret is the password. */
export function basicCheck(username: string): TextCheck {
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

export const tokenPlaces = ['header', 'query'] as const

/** A token in a header or in the query. The secret is the token. */
export function tokenCheck(place: (typeof tokenPlaces)[number], name: string, prefix: string): TextCheck {
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

/** A parameter of the URL that is there once. */
export function parameterOf({ url }: Arrival, name: string): string | undefined {
  const values = URL.canParse(url) ? new URL(url).searchParams.getAll(name) : []
  return values.length === 1 ? values[0] : undefined
}

/** Hashes are compared, so that the time does not tell the length of a secret. */
export function isOneOf(expected: readonly string[], found: string): boolean {
  const hash = hashOf(found)
  let isOne = false
  for (const text of expected) isOne = isSameText(hashOf(text), hash) || isOne
  return isOne
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
