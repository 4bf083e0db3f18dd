import type { EpochMs } from './clock.ts'

/** The condition of the database, as figures that operators and the rules of the doctor judge. */
export interface StoreCondition {
  /** The store's clock. */
  readonly now: EpochMs
  /** Time that one durable write took just now. */
  readonly commitMs: number
  /** Size of the database; null for a database in memory. */
  readonly bytes: number | null
  /** Size of SQLite's write-ahead log; null on Postgres and in memory. */
  readonly logBytes: number | null
  /** The file system of the SQLite file; null on Postgres and in memory. */
  readonly disk: DiskCondition | null
  /** The server's settings and sessions; null on SQLite. */
  readonly server: PostgresCondition | null
}

export interface DiskCondition {
  readonly path: string
  readonly freeBytes: number
  readonly totalBytes: number
  /** The name of a network file system, on which SQLite's locks cannot be trusted; null for any other. */
  readonly network: string | null
}

export interface PostgresCondition {
  readonly database: string
  /** Settings of the server by which a power cut may lose committed transactions, such as `fsync = off`. */
  readonly unsafe: readonly string[]
  /** `synchronous_commit` of sessions that do not set it: those of programs that publish in their own transactions. */
  readonly synchronousCommit: string
  readonly autovacuum: boolean
  /** The limit of connections that is nearest: of the server, of the database or of the role. */
  readonly connections: { readonly of: 'server' | 'database' | 'role'; readonly used: number; readonly limit: number }
  /** The oldest transaction of a session of this database; null without one. */
  readonly oldestTransaction: OpenTransaction | null
  /** The table with the most dead rows. */
  readonly deadRows: { readonly table: string; readonly dead: number; readonly live: number } | null
}

export interface OpenTransaction {
  readonly pid: number
  readonly application: string
  /** Whether the session waits for its client and does nothing. */
  readonly isIdle: boolean
  readonly ageMs: number
  /** Sessions that wait for a lock of it. */
  readonly blocks: number
}

/** Types of network file systems as Linux reports them (statfs(2)). */
const networkFileSystems: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x65735546, 'FUSE'],
  [0x01021997, '9P'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x01161970, 'GFS2'],
  [0x5346414f, 'AFS'],
  [0x7461636f, 'OCFS2'],
])

/** The name of a network file system by its type; null for any other. Some systems report the type as a signed number. */
export function networkFileSystem(type: number): string | null {
  return networkFileSystems.get(type >>> 0) ?? null
}
