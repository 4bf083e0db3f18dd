import { readEncryptionKeys } from '../../src/runtime/encryption-keys.ts'
import { systemRandomBytes } from '../../src/runtime/random.ts'
import { openVault } from '../../src/store/vault.ts'

/** The key with which every store and every program of the tests seals. */
export const testEncryptionKey = `test:${Buffer.alloc(32, 42).toString('base64')}`

export const testVault = openVault(readEncryptionKeys(testEncryptionKey) ?? [], systemRandomBytes)
