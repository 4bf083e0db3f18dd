import type { Application } from '../domain/endpoint.ts'
import type { Publication, Published, Subscriptions } from './intake.ts'

/** Publishing as part of a transaction that belongs to somebody else. */
export interface Enlisting {
  /**
   * Publishes within the transaction that is open on a connection of the caller's own: a `DatabaseSync` on the store's
   * file, or a `pg` client on its database. What was published exists if and only if that transaction commits; until
   * then nobody sees it. Nothing is changed when this fails, and the transaction can go on.
   *
   * SQLite answers at once instead of by a promise: whoever waits in the middle of a transaction holds the file's one
   * write lock against this very process.
   *
   * `match` is given the application and its subscriptions as the transaction sees them. The answer is undefined when
   * there is no such application. Throws `NotEnlistableError` when the connection cannot take part.
   */
  publishWithin(connection: object, ref: string, match: Match): Enlisted | undefined | Promise<Enlisted | undefined>
}

/** Decides what to publish, given an application and who is subscribed. */
export type Match = (application: Application, subscriptions: Subscriptions) => Publication

export interface Enlisted {
  /**
   * What an `Intake` answers; `accepted` holds once the transaction commits. `stale` when the application's endpoints
   * changed all the time.
   */
  readonly published: Published
  /**
   * Says that the transaction has committed, so that the deliveries start at once. Without it they are found: on SQLite
   * within milliseconds, on Postgres by the next reconcile.
   */
  committed(): void
}

/** How often a message is matched anew because endpoints changed between two statements of the transaction. */
export const matchTries = 8

/** A connection cannot take part in publishing: it is none, not on the store's database, or has no transaction open. */
export class NotEnlistableError extends Error {
  override readonly name = 'NotEnlistableError'
}
