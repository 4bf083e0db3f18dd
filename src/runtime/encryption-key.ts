import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type EncryptionKey, EncryptionKeyError, readEncryptionKeys } from './encryption-keys.ts'
import type { RandomBytes } from './random.ts'
import type { Config } from './settings.ts'

const fileName = 'encryption.key'

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
  const file = join(dirname(store.path), fileName)
  const keys = readEncryptionKeys(readOrMake(file, `${fresh}\n`, Buffer.from(randomBytes(6)).toString('hex')))
  if (keys === undefined) throw new EncryptionKeyError(`${file} does not hold encryption keys: 32 bytes in base64 each`)
  return keys
}

/** Reads the file, or creates it atomically: the name is linked after all of it is written, and by one process only. */
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
  return readFileSync(file, 'utf8')
}
