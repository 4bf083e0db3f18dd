import { systemRandomBytes } from '../../src/runtime/random.ts'
import { openVault, readVaultKeys } from '../../src/store/vault.ts'

/** What every store and every program of the tests seals with. */
export const testEncryptionKey = `test:${Buffer.alloc(32, 42).toString('base64')}`

export const testVault = openVault(readVaultKeys(testEncryptionKey) ?? [], systemRandomBytes)
