import { createHmac, createSecretKey } from 'node:crypto'
import { quote, textOf } from '../json/outline.ts'

/** Makes the pseudonym of the value that lies between two bytes of a payload. */
export type Pseudonymize = (json: Buffer, start: number, end: number) => string

/**
 * Pseudonyms of one subscriber in one region: HMAC-SHA256 under a key made from the region's secret and the endpoint's
 * id. The same value always gets the same one there; without the secret nobody can tell which value it stands for, nor
 * that two endpoints' pseudonyms stand for the same.
 *
 * A text is taken for what it says, however it was escaped. Anything else is taken as it is written: 1 and 1.0 differ.
 */
export function pseudonymizer(regionSecret: string, endpointId: string): Pseudonymize {
  const derived = createHmac('sha256', regionSecret).update(`pseudonym\0${endpointId}`).digest()
  const key = createSecretKey(derived)
  return (json, start, end) => {
    const isText = json[start] === quote
    const value = isText ? textOf(json, start, end) : json.subarray(start, end)
    return `psn_${createHmac('sha256', key)
      .update(isText ? 'text\0' : 'json\0')
      .update(value)
      .digest('base64url')}`
  }
}
