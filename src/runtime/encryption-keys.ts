import { hash } from 'node:crypto'
import { closeSync, fsyncSync, linkSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { RandomBytes } from './random.ts'
import type { Config } from './settings.ts'

/** A key that sealed records are sealed with. */
export interface EncryptionKey {
  readonly id: string
  /** 32 bytes. */
  readonly bytes: Uint8Array
}

/** The encryption keys cannot be read, or there are none. */
export class EncryptionKeyError extends Error {
  override readonly name = 'EncryptionKeyError'
}

const keyLength = 32

/**
 * Reads keys from text: 32 bytes in base64, or several as `id:base64`, separated by commas or lines. A key without an id
 * gets one made from its hash. Undefined when the text is anything else.
 */
export function readEncryptionKeys(text: string): EncryptionKey[] | undefined {
  const keys: EncryptionKey[] = []
  for (const part of text.split(/[,\n]/).map((piece) => piece.trim())) {
    if (part === '') continue
    const [, id, encoded = ''] = /^(?:([A-Za-z0-9_-]{1,32}):)?([A-Za-z0-9+/]{43}=)$/.exec(part) ?? []
    const bytes = Buffer.from(encoded, 'base64')
    if (bytes.length !== keyLength) return undefined
    keys.push({ id: id ?? hash('sha256', bytes, 'hex').slice(0, 8), bytes })
  }
  const ids = new Set(keys.map(({ id }) => id))
  return keys.length === 0 || ids.size < keys.length ? undefined : keys
}

/** The file that holds the keys of a SQLite database, beside it. */
export function keyFileOf(path: string): string {
  return join(dirname(path), 'encryption.key')
}

/**
 * Loads the keys that seal endpoints' secrets: from the setting, or for SQLite from a file beside the database, which is
 * created when it is missing. Several machines cannot share such a file, so Postgres needs the setting.
 */
export function loadEncryptionKeys(
  { store, encryptionKey }: Pick<Config, 'store' | 'encryptionKey'>,
  randomBytes: RandomBytes,
): readonly EncryptionKey[] {
  if (encryptionKey !== null) return encryptionKey
  const fresh = Buffer.from(randomBytes(32)).toString('base64')
  if (store.kind === 'postgres') {
    throw new EncryptionKeyError(
      'SLUICE_ENCRYPTION_KEY is not set, and with Postgres every process needs the same one ' +
        '(make one with `openssl rand -base64 32` and keep it apart from the database)',
    )
  }
  if (store.path === ':memory:') return readEncryptionKeys(fresh) as EncryptionKey[]
  const file = keyFileOf(store.path)
  const keys = readEncryptionKeys(readOrMake(file, `${fresh}\n`, Buffer.from(randomBytes(6)).toString('hex')))
  if (keys === undefined) throw new EncryptionKeyError(`${file} does not hold encryption keys: 32 bytes in base64 each`)
  return keys
}

/**
 * Reads the file, or creates it atomically: the name is linked after all of it is written, and by one process only. The name is
 * on the disk before anything is sealed with the key: after a power cut, records without their key could never be read.
 */
function readOrMake(file: string, content: string, suffix: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const draft = `${file}.${suffix}`
  writeFileSync(draft, content, { mode: 0o600, flush: true, flag: 'wx' })
  try {
    linkSync(draft, file)
  } catch (error) {
    // Another process was first: use its key.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(draft)
  }
  syncDirectory(dirname(file))
  return readFileSync(file, 'utf8')
}

function syncDirectory(path: string): void {
  const directory = openSync(path, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}
