import { createPrivateKey, createPublicKey, hash, type KeyObject, sign } from 'node:crypto'
import { type Signature, type Signing, type SigningKey, signedText } from '../signing.ts'
import { openValue, SealError, type SealedPlace, sealValue } from '../vault.ts'
import type { Methods, Port } from './port.ts'
import { statement } from './statement.ts'

interface KeyRow extends SigningKey {
  readonly secret: string
}

const columns = 'id, public_key as "publicKey", secret, created_at as "createdAt"'
const selectKeys = statement<KeyRow>('signing-keys', `select ${columns} from signing_key order by created_at desc, id`)
const lockSigning = statement('lock-signing', ({ lock }) => lock('signing'))
const insertKey = statement(
  'insert-signing-key',
  `insert into signing_key (id, public_key, secret, created_at)
   select :id, :public_key, :secret, :now where not exists (select 1 from signing_key)`,
)

/** DER of a PKCS #8 ed25519 private key, up to where its 32-byte seed follows. */
const privateKeyPrefix = Buffer.from('302e020100300506032b657004220420', 'hex')
const publicKeyBytes = 32
/** Base-62 digits from which a seed is made: 380 bits. */
const seedText = 64

/** Signs with the server's key, which is made at the first use and sealed in the store. */
export function signing(port: Port): Methods<Signing> {
  const { vault, randomText } = port.context

  function keyOf({ id, secret }: KeyRow): KeyObject {
    const { seed } = openValue<{ seed: string }>(vault, secret, signingKeyPlace(id))
    return privateKeyOf(Buffer.from(seed, 'base64'))
  }

  function isOwn(row: KeyRow): boolean {
    try {
      return publicKeyOf(keyOf(row)) === row.publicKey
    } catch (error) {
      if (error instanceof SealError) return false
      throw error
    }
  }

  return {
    *sign(purpose, text) {
      let [row] = yield* port.all(selectKeys)
      if (row === undefined) {
        const seed = hash('sha256', randomText(seedText), 'buffer')
        const publicKey = publicKeyOf(privateKeyOf(seed))
        const id = hash('sha256', publicKey, 'hex').slice(0, 16)
        const secret = sealValue(vault, { seed: seed.toString('base64') }, signingKeyPlace(id)) as string
        yield* port.transaction(function* (sql) {
          // Another process may be making one at the same time.
          yield* sql.all(lockSigning)
          yield* sql.all(insertKey, { id, public_key: publicKey, secret })
        })
        row = (yield* port.all(selectKeys))[0] as KeyRow
      }
      const signature = sign(null, signedText(purpose, text), keyOf(row)).toString('base64')
      return { algorithm: 'ed25519', keyId: row.id, publicKey: row.publicKey, signature } satisfies Signature
    },

    *signingKeys() {
      const own = (yield* port.all(selectKeys)).filter(isOwn)
      return own.map(({ id, publicKey, createdAt }) => ({ id, publicKey, createdAt }))
    },
  }
}

function privateKeyOf(seed: Buffer): KeyObject {
  return createPrivateKey({ key: Buffer.concat([privateKeyPrefix, seed]), format: 'der', type: 'pkcs8' })
}

function publicKeyOf(key: KeyObject): string {
  return createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-publicKeyBytes).toString('base64')
}

/** No endpoint has this key. */
export function signingKeyPlace(id: string): SealedPlace {
  return { app: 0, endpoint: 0, field: `signing key ${id}` }
}
