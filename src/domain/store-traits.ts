export type StoreKind = 'sqlite' | 'postgres'

/** How the kinds of stores differ for their users. Code outside a store asks for a trait, and for the kind only to name it. */
export interface StoreTraits {
  /** Processes on any machines deliver from it, by the clock of its server. One process alone delivers from any other store. */
  readonly isShared: boolean
  /** Whether a publish within a caller's transaction is answered by a promise. */
  readonly answersLater: boolean
  /** Transactions of publishes that are worth having under way at once. */
  readonly groupsAtOnce: number
  /** Commands that tell an operator whether the store can be reached, and which work keeps it busy. */
  readonly reachCommand: string
  readonly busyCommand: string
}

export const storeTraits: Readonly<Record<StoreKind, StoreTraits>> = {
  sqlite: {
    isShared: false,
    answersLater: false,
    // One thread does them and everything else, to which fewer and larger ones leave more: the API takes 20,500 publishes/s
    // with one, 18,100 with two.
    groupsAtOnce: 1,
    reachCommand: 'sluice config | grep -A1 store && df -h',
    busyCommand: 'iostat -x 1 5',
  },
  postgres: {
    isShared: true,
    answersLater: true,
    // They keep the log writer of the server busy.
    groupsAtOnce: 4,
    reachCommand: 'pg_isready -d "$SLUICE_STORE"',
    busyCommand: psql("select * from pg_stat_activity where state <> 'idle'"),
  },
}

/** The command that runs a statement on the Postgres server of the store. */
export function psql(statement: string): string {
  return `psql "$SLUICE_STORE" -c "${statement}"`
}
