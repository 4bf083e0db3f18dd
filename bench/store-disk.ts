import { closeSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import type { Bench } from './bench.ts'
import { postgresPid, query } from './postgres.ts'
import { bytesWrittenBy } from './processor-time.ts'
import type { Server } from './server.ts'

/** The disk space and the writes of a store so far. */
export interface DiskUse {
  /** The length of its write-ahead log. */
  readonly logBytes: number
  readonly storeBytes: number
  /** The bytes that its processes wrote to the disk; of a page that is written twice within seconds, maybe once. */
  readonly writtenBytes: number
  /** How often the log was copied into the database as a whole. */
  readonly checkpoints: number
  /** Grows while a checkpoint goes on. */
  readonly checkpointWork: number
}

/** Looks at the disk of the store in which a server keeps everything. */
export function diskUse(bench: Bench, place: string, server: Server): Promise<DiskUse> {
  return bench.store === 'postgres' ? postgresUse(bench, place) : Promise.resolve(sqliteUse(place, server))
}

function sqliteUse(place: string, server: Server): DiskUse {
  const path = place.slice('sqlite:'.length)
  const checkpoints = timesRestarted(`${path}-wal`)
  return {
    logBytes: statSync(`${path}-wal`).size,
    storeBytes: statSync(path).size,
    writtenBytes: bytesWrittenBy(server.pid),
    checkpoints,
    checkpointWork: checkpoints,
  }
}

/** SQLite counts in the head of the log how often it began from its start, which it does when all of it was copied. */
function timesRestarted(log: string): number {
  const head = Buffer.alloc(16)
  const file = openSync(log, 'r')
  try {
    readSync(file, head, 0, head.length, 0)
  } finally {
    closeSync(file)
  }
  return head.readUInt32BE(12)
}

async function postgresUse(bench: Bench, place: string): Promise<DiskUse> {
  const [row] = await query(
    place,
    `select (select sum(size) from pg_ls_waldir())::float8 as log, pg_database_size(current_database())::float8 as store,
            num_done::float8 as done, (num_done + buffers_written)::float8 as work from pg_stat_checkpointer`,
  )
  return {
    logBytes: row?.log ?? Number.NaN,
    storeBytes: row?.store ?? Number.NaN,
    writtenBytes: bytesWrittenBy(postgresPid(bench)),
    checkpoints: row?.done ?? Number.NaN,
    checkpointWork: row?.work ?? Number.NaN,
  }
}

/** The memory that a process has resident at this moment, in bytes; elsewhere than on Linux, unknown. */
export function residentBytes(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024
  } catch {
    return Number.NaN
  }
}
