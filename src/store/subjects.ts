import type { EpochMs } from '../domain/clock.ts'
import type { Order } from './messages.ts'

/**
 * Data subjects: the persons that messages are about. A message is found by keyed hashes of the values that its
 * application's pointers name. The store never keeps such a value outside of payloads.
 */
export interface Subjects {
  /** How an application's messages are indexed at the moment; undefined when it names no pointers. */
  findSubjectIndex(app: number): Promise<SubjectIndexing | undefined>
  /** The messages under a hash by key, and those that are not indexed, in `[from, until)` behind `after`. */
  listSubjectMessages(app: number, hash: string, range: SubjectRange): Promise<SubjectMessage[]>
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

export interface SubjectRange {
  readonly after: number
  readonly until: number
  readonly limit: number
  readonly order?: Order
}

export interface SubjectMessage {
  readonly message: number
  /** False for a message that is stored under `unindexedSubject`: its body must be read. */
  readonly indexed: boolean
}

/** In place of hashes: the body must be read to find out whom the message names. */
export const unindexedSubject = ''
