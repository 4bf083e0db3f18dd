import assert from 'node:assert/strict'
import fs, { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { loadEncryptionKeys } from '../../src/runtime/encryption-keys.ts'
import { systemRandomBytes } from '../../src/runtime/random.ts'

function sqliteIn(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-key-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const store = { kind: 'sqlite', path: join(directory, 'sluice.db') } as const
  return {
    file: join(directory, 'encryption.key'),
    load: () => loadEncryptionKeys({ store, encryptionKey: null }, systemRandomBytes),
  }
}

test('a file of its own is made beside a SQLite database, for its owner alone, and used from then on', (t) => {
  const { file, load } = sqliteIn(t)
  const made = load()
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.match(readFileSync(file, 'utf8'), /^[A-Za-z0-9+/]{43}=\n$/)
  assert.deepEqual(load(), made)
})

test('the name of a new key file is on the disk before the key is used', (t) => {
  const { file, load } = sqliteIn(t)
  const done: string[] = []
  const opened = new Map<number, string>()
  const { openSync, fsyncSync, linkSync } = fs
  t.mock.method(fs, 'openSync', (...[path, ...others]: Parameters<typeof openSync>) => {
    const found = openSync(path, ...others)
    opened.set(found, String(path))
    return found
  })
  t.mock.method(fs, 'linkSync', (...[from, to]: Parameters<typeof linkSync>) => {
    linkSync(from, to)
    done.push(`link ${to}`)
  })
  t.mock.method(fs, 'fsyncSync', (descriptor: number) => {
    fsyncSync(descriptor)
    done.push(`sync ${opened.get(descriptor)}`)
  })
  syncBuiltinESMExports()
  t.after(() => {
    t.mock.restoreAll()
    syncBuiltinESMExports()
  })
  load()
  assert.deepEqual(done.slice(-2), [`link ${file}`, `sync ${dirname(file)}`])
})

test('a key file that holds something else is refused by name and left alone', (t) => {
  const { file, load } = sqliteIn(t)
  writeFileSync(file, 'password1\n')
  assert.throws(load, { name: 'EncryptionKeyError', message: /encryption\.key does not hold encryption keys/ })
  assert.equal(readFileSync(file, 'utf8'), 'password1\n')
})

test('the setting goes before the file, and Postgres has nothing else', () => {
  const encryptionKey = [{ id: 'a', bytes: Buffer.alloc(32) }]
  const store = { kind: 'postgres', url: 'postgres://x/y' } as const
  assert.deepEqual(loadEncryptionKeys({ store, encryptionKey }, systemRandomBytes), encryptionKey)
  assert.throws(() => loadEncryptionKeys({ store, encryptionKey: null }, systemRandomBytes), {
    name: 'EncryptionKeyError',
    message: /SLUICE_ENCRYPTION_KEY is not set/,
  })
})
