/** The changes that the shim traced, in the order of `enum operation` in shim.c. */
const operations = [
  'write',
  'truncate',
  'extend',
  'create',
  'unlink',
  'rename',
  'sync begun',
  'sync ended',
  'sync failed',
  'mkdir',
  'rmdir',
] as const

export type Operation = (typeof operations)[number]

/** One change of the disk, made at `atMs` of the machine's steady clock, or the begin or end of a sync. */
export interface TraceRecord {
  readonly operation: Operation
  readonly atMs: number
  readonly inode: number
  /** Where a write begins; the size after `truncate` and at least after `extend`. */
  readonly offset: number
  /** Belongs to the begin and the end of one sync. */
  readonly token: bigint
  readonly path: string
  /** The new name of a `rename`. */
  readonly to: string
  readonly data: Buffer
}

const magic = 0x46415554
const headBytes = 48

/** The records of a trace. A last one that its process did not finish writing is left out. */
export function readTrace(bytes: Buffer): TraceRecord[] {
  const records: TraceRecord[] = []
  let at = 0
  while (at + headBytes <= bytes.length) {
    if (bytes.readUInt32LE(at) !== magic) throw new Error(`the trace is damaged at byte ${at}`)
    const pathBytes = bytes.readUInt32LE(at + 8)
    const dataBytes = bytes.readUInt32LE(at + 12)
    const dataAt = at + headBytes + pathBytes
    if (dataAt + dataBytes > bytes.length) break
    const [path = '', to = ''] = bytes.toString('utf8', at + headBytes, dataAt).split('\0')
    records.push({
      operation: operations[bytes.readUInt32LE(at + 4)] as Operation,
      atMs: Number(bytes.readBigUInt64LE(at + 16)) / 1e6,
      inode: Number(bytes.readBigUInt64LE(at + 24)),
      offset: Number(bytes.readBigUInt64LE(at + 32)),
      token: bytes.readBigUInt64LE(at + 40),
      path,
      to,
      data: bytes.subarray(dataAt, dataAt + dataBytes),
    })
    at = dataAt + dataBytes
  }
  return records
}
