import { readEncryptionKeys } from '../../src/runtime/encryption-keys.ts'
import { systemRandomBytes } from '../../src/runtime/random.ts'
import { openVault } from '../../src/store/vault.ts'
import { testEncryptionKey } from './test-key.ts'

export { testEncryptionKey } from './test-key.ts'

export const testVault = openVault(readEncryptionKeys(testEncryptionKey) ?? [], systemRandomBytes)
