import { SignatureError, type Verifier } from '@sluice/receiver'
import { refuse } from './answer.ts'
import { digestOf } from './digest.ts'
import type { Incoming } from './incoming.ts'

/** A delivery that Sluice signed. */
export interface Delivery {
  readonly id: string
  /**
   * Recognizes repetitions: a digest of the id and the body. Most profiles do not sign the id, so with the id alone a
   * recorded request could pass under the id of another delivery, which would then never reach the receiver. Every
   * attempt of a delivery has the same id and the same bytes.
   */
  readonly digest: string
}

/** The delivery of a genuine request of Sluice, or the refusal of any other. */
export async function verified(verifier: Verifier, { request, body }: Incoming): Promise<Delivery | Response> {
  try {
    const { id } = await verifier.verify({ headers: request.headers, body })
    if (id === undefined || id.length > 256) return refuse('no_id', 'The request has no id of at most 256 characters.')
    return { id, digest: await digestOf(id, body) }
  } catch (error) {
    if (error instanceof SignatureError) return refuse('not_genuine', error.message)
    throw error
  }
}
