import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { readEncryptionKeys } from '../../src/runtime/encryption-keys.ts'
import { systemRandomBytes } from '../../src/runtime/random.ts'
import { openVault, SealError, sealedWith, type VaultKey } from '../../src/store/vault.ts'

const place = { app: 1, endpoint: 2, field: 'secrets' }
const old: VaultKey = { id: 'old', bytes: Buffer.alloc(32, 1) }
const fresh: VaultKey = { id: 'new', bytes: Buffer.alloc(32, 2) }
const vaultOf = (...keys: VaultKey[]) => openVault(keys, systemRandomBytes)

describe('a vault', () => {
  test('opens what it sealed, and no two seals of one text are alike', () => {
    const vault = vaultOf(fresh)
    const sealed = vault.seal('whsec_🎬', place)
    assert.equal(vault.open(sealed, place), 'whsec_🎬')
    assert.notEqual(vault.seal('whsec_🎬', place), sealed)
    assert.match(sealed, /^v1\|new\|/)
    assert.doesNotMatch(sealed, /whsec/)
  })

  test('refuses a record with any byte flipped', () => {
    const vault = vaultOf(fresh)
    const sealed = vault.seal('whsec_secret', place)
    for (let i = 0; i < sealed.length; i++) {
      const flipped = `${sealed.slice(0, i)}${sealed[i] === 'A' ? 'Q' : 'A'}${sealed.slice(i + 1)}`
      assert.throws(() => vault.open(flipped, place), SealError, `byte ${i}`)
    }
  })

  test('refuses a record of another application, endpoint or field', () => {
    const vault = vaultOf(fresh)
    const sealed = vault.seal('whsec_secret', place)
    for (const change of [{ app: 9 }, { endpoint: 9 }, { field: 'headers' }]) {
      assert.throws(() => vault.open(sealed, { ...place, ...change }), SealError)
    }
  })

  test('seals with its first key, opens with all, and names a key it does not have', () => {
    const sealed = vaultOf(old).seal('x', place)
    const both = vaultOf(fresh, old)
    assert.equal(both.open(sealed, place), 'x')
    assert.equal(sealedWith(both.seal('x', place)), 'new')
    assert.throws(() => vaultOf(fresh).open(sealed, place), /encryption key old, not given here/)
    assert.throws(() => vaultOf({ ...fresh, id: 'old' }).open(sealed, place), /do not open with the encryption key old/)
  })
})

describe('encryption keys', () => {
  const base64 = Buffer.alloc(32, 7).toString('base64')

  test('are read alone or several, with ids of their own or made from their hash', () => {
    const [made] = readEncryptionKeys(base64) ?? []
    assert.match(made?.id ?? '', /^[0-9a-f]{8}$/)
    assert.deepEqual(
      readEncryptionKeys(`a:${base64},b:${Buffer.from(old.bytes).toString('base64')}`)?.map(({ id }) => id),
      ['a', 'b'],
    )
    assert.deepEqual(readEncryptionKeys(`a:${base64}\n`)?.length, 1)
  })

  for (const [what, text] of [
    ['nothing', ''],
    ['31 bytes', Buffer.alloc(31).toString('base64')],
    ['33 bytes', Buffer.alloc(33).toString('base64')],
    ['hex', '07'.repeat(32)],
    ['the same id twice', `a:${base64},a:${base64}`],
    ['an id with a separator', `a|b:${base64}`],
  ] as const) {
    test(`are not read from ${what}`, () => assert.equal(readEncryptionKeys(text), undefined))
  }
})
