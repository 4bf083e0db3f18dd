import { statSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { networkFileSystem, type StoreCondition } from '../../domain/doctor-facts.ts'
import type { Connection } from './connection.ts'
import { asTrouble } from './trouble.ts'

/** Makes one durable write that changes nothing, and looks at the file and its file system. */
export async function condition(connection: Connection): Promise<StoreCondition> {
  const { clock } = connection.context
  const begunAt = clock.steady()
  try {
    connection.assertWritable()
    const { user_version: version } = connection.prepare<{ user_version: number }>('pragma user_version').get() ?? {}
    connection.relaxedTransaction(() => connection.db.exec(`pragma user_version = ${version ?? 0}`))
    await connection.onDisk()
  } catch (error) {
    throw asTrouble(error)
  }
  const commitMs = clock.steady() - begunAt
  const path = connection.db.location()
  const now = connection.now()
  if (path === null) return { now, commitMs, bytes: null, logBytes: null, disk: null, server: null }
  const { bsize, bavail, blocks, type } = await statfs(dirname(path))
  const disk = { path, freeBytes: bavail * bsize, totalBytes: blocks * bsize, network: networkFileSystem(type) }
  return { now, commitMs, bytes: sizeOf(path), logBytes: sizeOf(`${path}-wal`), disk, server: null }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}
