import type { EpochMs } from '../../domain/clock.ts'
import type { MessageWeight } from './rules.ts'

/**
 * Data subjects: the persons that messages are about. A message is found by keyed hashes of the values that its
 * application's pointers name. The store never keeps such a value outside of payloads.
 */
export interface Subjects {
  /** How an application's messages are indexed at the moment; undefined when it names no pointers. */
  findSubjectIndex(app: number): Promise<SubjectIndexing | undefined>
  /** The messages under a hash by key, and those that are not indexed, in `[from, until)` behind `after`. */
  listSubjectMessages(
    app: number,
    hash: string,
    range: { readonly after: number; readonly until: number; readonly limit: number },
  ): Promise<SubjectMessage[]>
  /** The cost of erasing each of these messages, by key. Messages that are gone are left out. */
  weighMessages(messages: readonly number[]): Promise<MessageWeight[]>
  /** The messages of which a delivery waits, or is still to be queued. */
  waitingAmong(messages: readonly number[]): Promise<number[]>
  /** The variants of a message, each with one endpoint that gets it. */
  listVariants(message: number): Promise<{ readonly n: number; readonly endpoint: number }[]>
  /**
   * Has the database reclaim erased rows, where it keeps them behind an update. Never rejects: a database that is busy or
   * does not permit it is left as it is.
   */
  scrubErased(): Promise<void>
}

/** Where an application's data subjects are in its payloads, and the secret of their hashes. */
export interface SubjectRules {
  readonly pointers: readonly string[]
  /** Null when its record does not open: messages are then stored under `unindexedSubject`. */
  readonly secret: string | null
}

export interface SubjectIndexing extends SubjectRules {
  /** Messages from before this instant may lack hashes: they were published under other pointers, or none. */
  readonly since: EpochMs
}

export interface SubjectMessage {
  readonly message: number
  /** False for a message that is stored under `unindexedSubject`: its body must be read. */
  readonly indexed: boolean
}

/** In place of hashes: the body must be read to find out whom the message names. */
export const unindexedSubject = ''

/**
 * Rids a message of a person, within a step of a task:
 *   erase   — the payload goes, and deliveries that wait are cancelled;
 *   end     — as `erase`, unless a delivery waits: then the message stays as it is, and is found again;
 *   rewrite — if any delivery waits, all that wait get this body from now on; otherwise as `erase`;
 *   settle  — the message was rewritten before: answers that were recorded since are erased.
 * In each case but a message that stays, every answer that a receiver gave goes as well, for it may echo the payload.
 */
export type Erasure = {
  readonly message: number
  readonly hash: string
  /**
   * The endpoints of a wide message that this step deals with, by their places in its list: it is then the only message of
   * the step. Absent: all.
   */
  readonly part?: { readonly from: number; readonly until: number }
} & ({ readonly how: 'erase' | 'end' | 'settle' } | ({ readonly how: 'rewrite' } & Rewritten))

/** A message without its data subjects. */
export interface Rewritten {
  readonly body: Uint8Array
  /** Variants that are missing are deleted. */
  readonly variants: readonly RewrittenVariant[]
}

export interface RewrittenVariant {
  readonly n: number
  readonly body: Uint8Array | null
  readonly signature: string | null
}
