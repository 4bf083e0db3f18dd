import type { Endpoint } from '../domain/endpoint.ts'
import { pseudonymizer } from './pseudonym.ts'
import { readJson, shaper } from './shape.ts'

/** What may be sent of a body; undefined when nothing may, because it cannot be told what. */
export type BodyShaper = (body: Uint8Array) => Uint8Array | undefined

/**
 * Makes what shapes the bodies of an endpoint as it is about to be sent to: those that were accepted before it had a shape,
 * or not for it at all. Undefined for one that gets payloads whole.
 */
export function bodyShaper({ id, flow, regionSecret }: Endpoint): BodyShaper | undefined {
  const { shape } = flow
  if (shape === null) return undefined
  const needsSecret = shape.pseudonymize.length > 0
  if (needsSecret && regionSecret == null) return () => undefined
  const apply = shaper(shape, needsSecret ? pseudonymizer(regionSecret as string, id) : null)
  return (body) => {
    const json = readJson(body)
    return json && apply(json.bytes)
  }
}
