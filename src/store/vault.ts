import { createCipheriv, createDecipheriv, createSecretKey } from 'node:crypto'

/**
 * Seals text that must not be readable in the database, in its log or in a copy of either: the secrets and headers of
 * endpoints, the secrets of regions, the headers of schedules, and the settings, secrets and tokens of sources. Both stores put them through here as rows are written and read, and nowhere else.
 *
 * A sealed text is `v1|key id|iv|tag|ciphertext`, in base64: AES-256-GCM under a random 96-bit iv. Its place is
 * authenticated with it, so that a record copied into another row, column or application does not open.
 */
export interface Vault {
  /** The id of the key that seals. */
  readonly sealsWith: string
  /** Every key that opens, the sealing one first. */
  readonly keyIds: readonly string[]
  seal(text: string, place: SealedPlace): string
  /** Throws `SealError` when the key is not there, or the record was not sealed for this place. */
  open(sealed: string, place: SealedPlace): string
}

/** The place of a sealed text: application, endpoint (or schedule) and column. */
export interface SealedPlace {
  readonly app: number
  readonly endpoint: number
  readonly field: string
}

export interface VaultKey {
  readonly id: string
  /** 32 bytes. */
  readonly bytes: Uint8Array
}

/** Something sealed cannot be opened: its key is missing or another one, or the record was changed. */
export class SealError extends Error {
  override readonly name = 'SealError'
}

const version = 'v1'
const ivBytes = 12
const sealedPattern = /^v1\|([A-Za-z0-9_-]{1,32})\|([A-Za-z0-9+/]{16})\|([A-Za-z0-9+/]{22}==)\|([A-Za-z0-9+/]*={0,2})$/

/** Opens a vault over keys, of which the first seals. */
export function openVault(keys: readonly VaultKey[], randomBytes: (length: number) => Uint8Array): Vault {
  // As key objects: with bare bytes each call makes one, and takes 15 µs instead of 4.
  const byId = new Map(keys.map(({ id, bytes }) => [id, createSecretKey(bytes)]))
  const [first] = byId
  if (first === undefined) throw new SealError('there is no encryption key')
  const [sealsWith, sealingKey] = first
  return {
    sealsWith,
    keyIds: [...byId.keys()],

    seal(text, place) {
      const iv = randomBytes(ivBytes)
      const cipher = createCipheriv('aes-256-gcm', sealingKey, iv)
      cipher.setAAD(contextOf(place, sealsWith))
      const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      const parts = [Buffer.from(iv), cipher.getAuthTag(), sealed].map((part) => part.toString('base64'))
      return `${version}|${sealsWith}|${parts.join('|')}`
    },

    open(sealed, place) {
      const [, id = '', iv = '', tag = '', body = ''] = sealedPattern.exec(sealed) ?? []
      // The number of the endpoint is the store's own; the callers that know its id name it.
      const what = place.field.includes(' ') ? place.field : `${place.field} of an endpoint`
      if (id === '') throw new SealError(`the ${what} are not a sealed record`)
      const key = byId.get(id)
      if (key === undefined)
        throw new SealError(
          `the ${what} are sealed with the encryption key ${id}, not given here: put the file encryption.key back beside ` +
            'the database, or add the key to encryptionKey',
        )
      const decipher = createDecipheriv('aes-256-gcm', key, Buffer.from(iv, 'base64'))
      decipher.setAAD(contextOf(place, id))
      decipher.setAuthTag(Buffer.from(tag, 'base64'))
      try {
        // As buffers: with texts, Node makes a decoder for each, which is a quarter of the whole.
        const text = decipher.update(Buffer.from(body, 'base64'))
        decipher.final()
        return text.toString('utf8')
      } catch (error) {
        const reason = 'the record was changed, or the key is another one of the same id'
        throw new SealError(`the ${what} do not open with the encryption key ${id}: ${reason}`, { cause: error })
      }
    },
  }
}

/** The id of the key that a stored value is sealed with; undefined when it is not sealed. */
export function sealedWith(stored: unknown): string | undefined {
  return typeof stored === 'string' ? /^v1\|([A-Za-z0-9_-]{1,32})\|/.exec(stored)?.[1] : undefined
}

/** A value as it is stored: sealed JSON. An empty value is not sealed. */
export function sealValue(vault: Vault, value: object, place: SealedPlace): unknown {
  return Object.keys(value).length === 0 ? value : vault.seal(JSON.stringify(value), place)
}

/** The value of a stored record. A record that is not sealed was written before Sluice sealed. */
export function openValue<T>(vault: Vault, stored: unknown, place: SealedPlace): T {
  return typeof stored === 'string' ? JSON.parse(vault.open(stored, place)) : (stored as T)
}

/** The answer of `open`; undefined, and a line in the log that begins with `effect`, when a record does not open. */
export function unlessDamaged<T>(
  open: () => T,
  log: ((sentence: string) => void) | undefined,
  effect: string,
): T | undefined {
  try {
    return open()
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    log?.(`${effect}: ${error.message}`)
    return undefined
  }
}

function contextOf({ app, endpoint, field }: SealedPlace, keyId: string): Buffer {
  return Buffer.from(`${app}|${endpoint}|${field}|${keyId}`)
}
