import type { DeadLetter, Message } from '../domain/delivery.ts'
import { withKey } from '../domain/ids.ts'
import type { DeliveryKey } from './browsing.ts'
import type { Variant } from './intake.ts'

/** Taking dead letters out of a store and bringing them back, to the same one or to another. */
export interface Transferring {
  /** What deliveries consist of, in the order asked; undefined where the message no longer exists. */
  loadContents(deliveries: readonly DeliveryKey[]): Promise<(Contents | undefined)[]>
  /**
   * Brings dead letters of an application back, all or none, each with its message where that no longer exists. A message
   * keeps its id, unless that is another's here: then it gets one of a neighbouring key, the same one every time. Answers
   * what became of each:
   *   imported  — it is a dead letter now;
   *   unchanged — it is one already, or the delivery has gone on since: it is queued, or was tried after it died;
   *   missing   — its message no longer exists, and came without a body.
   */
  importDead(app: number, letters: readonly BroughtLetter[]): Promise<Brought[]>
}

/** What a delivery consists of beside where it goes. */
export interface Contents extends Planning {
  readonly message: Message
}

/** How a delivery differs from a plain one, where that outlives its first end. */
export interface Planning {
  readonly orderKey: number | null
  readonly variant: Variant | null
}

/** A dead letter that comes from somewhere. */
export interface BroughtLetter extends Omit<DeadLetter, 'app' | 'message'>, Planning {
  readonly message: Omit<Message, 'app' | 'body' | 'endpoints' | 'expunged'>
  /** Null when only the message that is here will do. */
  readonly body: Uint8Array | null
}

export type Brought = 'imported' | 'unchanged' | 'missing'

/** Keys that are tried for a message whose own is taken by another. */
const neighbours = 64

/** Where a message may be: under its own key, or under one of the next, as the ids there must then be. */
export function* placesOf({ key, id }: { readonly key: number; readonly id: string }) {
  for (let i = 0; i < neighbours; i++) yield { key: key + i, id: withKey('msg', id, key + i) }
}
