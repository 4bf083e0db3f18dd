import { createHash, createHmac, type KeyObject } from 'node:crypto'
import type { Compute, Parts } from '../domain/turns.ts'
import { type Arrival, formOf, genuine, headerOf, isSameText, mediaTypeOf, refused } from './arrival.ts'
import { hashing, type KeyCheck, wrongSignature } from './hmac.ts'

const header = 'x-twilio-signature'
const signatureForm = /^[A-Za-z0-9+/]{26}[AEIMQUYcgkosw048]=$/

/**
 * Twilio signs the URL followed by the names and values of the form, sorted by name; for other bodies the URL alone, which
 * then carries the hash of the body as `bodySHA256`.
 */
export function twilioCheck(compute: Compute): KeyCheck {
  return async (arrival, keys) => {
    const signature = headerOf(arrival, header)
    if (signature === undefined) return refused('not_signed', `The header ${header} is missing.`)
    if (!signatureForm.test(signature)) {
      return refused('malformed', `The header ${header} is not a SHA-1 signature in base64.`)
    }
    if (!URL.canParse(arrival.url)) return refused('malformed', 'The URL of the request is not valid.')
    const form = await compute(formText(arrival))
    if (form === undefined) {
      const asked = 'a form of at most 1,000 fields and 256 KiB, or its hash is in bodySHA256 of the URL'
      return refused('malformed', `The body cannot be verified: Twilio's bodies are ${asked}.`)
    }
    let isOurs = false
    for (const url of spellings(arrival.url)) {
      for (const key of keys) isOurs = isSameText(signatureOf(key, url, form), signature) || isOurs
    }
    return isOurs ? genuine : wrongSignature(header)
  }
}

function signatureOf(key: KeyObject, url: string, form: string): string {
  return createHmac('sha1', key).update(url).update(form).digest('base64')
}

/** The signed text of the body behind the URL; undefined when the signature does not cover the body. */
function* formText(arrival: Arrival): Parts<string | undefined> {
  const { body, url } = arrival
  const hash = new URL(url).searchParams.get('bodySHA256')
  if (hash !== null) {
    const found = createHash('sha256')
    yield* hashing(found, body)
    return isSameText(found.digest('hex'), hash.toLowerCase()) ? '' : undefined
  }
  if (body.length === 0 && mediaTypeOf(arrival) === '') return ''
  const form = formOf(arrival)
  if (form === undefined) return undefined
  const values = new Map<string, Set<string>>()
  for (const [name, value] of form) values.set(name, (values.get(name) ?? new Set()).add(value))
  // By code units, as Twilio's own libraries sort. A value that comes twice counts once.
  return [...values.keys()]
    .sort()
    .flatMap((name) => [...(values.get(name) ?? [])].sort().map((value) => `${name}${value}`))
    .join('')
}

/** A URL with and without its port: Twilio signs either, depending on the product. */
function spellings(url: string): string[] {
  const [, scheme = '', host = '', port, rest = ''] = /^(https?):\/\/([^/?#:]+|\[[^\]]*\])(:\d+)?(.*)$/s.exec(url) ?? []
  if (scheme === '') return [url]
  const standard = scheme === 'https' ? ':443' : ':80'
  const bare = `${scheme}://${host}${rest}`
  return port === undefined ? [bare, `${scheme}://${host}${standard}${rest}`] : [url, bare]
}
