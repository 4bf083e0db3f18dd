import type { Endpoint } from '../domain/endpoint.ts'
import type { Parts } from '../domain/turns.ts'
import { Outline } from '../json/outline.ts'
import { pseudonymizer } from './pseudonym.ts'
import { shaper } from './shape.ts'

/** The bytes of a body that an endpoint may get; undefined when the body is not JSON, of which it may get nothing. */
export type BodyShaper = (body: Uint8Array) => Parts<Uint8Array | undefined>

/**
 * Makes the shaper of bodies that are about to be sent: of messages that were accepted before the endpoint had a shape,
 * or that were not accepted for it. Undefined for an endpoint that gets payloads whole.
 */
export function bodyShaper({ id, flow, regionSecret }: Endpoint): BodyShaper | undefined {
  const { shape } = flow
  if (shape === null) return undefined
  const needsSecret = shape.pseudonymize.length > 0
  const isLocked = needsSecret && regionSecret == null
  const apply = shaper(shape, needsSecret && !isLocked ? pseudonymizer(regionSecret as string, id) : null)
  return function* (body) {
    const json = isLocked ? undefined : yield* Outline.of(body)
    return json && (yield* apply(json))
  }
}
