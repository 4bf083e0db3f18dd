import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { openParts } from '../../src/compose/parts.ts'
import { configOf } from '../../src/runtime/config.ts'
import { openLog } from '../../src/runtime/log.ts'
import { placeFor } from '../store/sqlite-harness.ts'
import { testEncryptionKey } from '../store/test-vault.ts'

test('parts that cannot all be opened give the file back', async (t) => {
  const { path } = placeFor(t)
  const open = async (more: object) => {
    const config = configOf({ store: `sqlite:${path}`, encryptionKey: testEncryptionKey, logLevel: 'silent', ...more })
    return openParts(config, openLog(config))
  }
  await (await open({})).store.close()
  const damaged = new DatabaseSync(path)
  damaged.exec('alter table api_key rename to lost_keys')
  damaged.close()
  // The store opens; the key is looked for in it afterwards.
  await assert.rejects(open({ apiKey: 'sk_fGh7Kq2mWzR4tYb9' }), /api_key/)
  await (await open({})).store.close()
})
