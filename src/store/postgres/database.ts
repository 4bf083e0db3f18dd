import { encodeId, type Prefix } from '../../domain/ids.ts'
import type { Identity } from '../identity.ts'
import type { StoreContext } from '../store.ts'
import type { Keys } from './keys.ts'
import type { LaneWakes } from './lane-wakes.ts'
import type { ServerTime } from './server-time.ts'
import type { Sessions } from './sessions.ts'
import type { Signals } from './signals.ts'

/** The parts that every method of the store works with. */
export interface Database {
  readonly context: StoreContext
  /** For what was promised to a caller: a commit waits for the disk. */
  readonly durable: Sessions
  /** For what can be done again: a commit does not wait, and a crash of the server may undo the last moments. */
  readonly relaxed: Sessions
  readonly time: ServerTime
  readonly keys: Keys
  readonly signals: Signals
  readonly wakes: LaneWakes
}

/** Runs an insert under a new identity, again with another one when the key was taken. */
export function withNewIdentity<T>(
  database: Database,
  prefix: Prefix,
  insert: (identity: Identity) => Promise<T>,
): Promise<T> {
  return database.keys.make((next) => {
    const key = next()
    return insert({ key, id: encodeId(prefix, key, database.context.randomText) })
  })
}
