import { SealError, type SealedPlace, sealedWith, type Vault } from './vault.ts'

/** Rows per transaction when all records are sealed under another key. */
export const sealingChunk = 200

/** The proof of a key: a constant text, sealed for a place that no endpoint has. */
const proofText = 'sluice'
const proofPlace: SealedPlace = { app: 0, endpoint: 0, field: 'proof' }

/** A row of `sealing_key`: a key that may have sealed something in this store. */
export interface SealingKey {
  readonly id: string
  readonly proof: string
}

/** A new row of `sealing_key`. */
export function proofOf(vault: Vault): SealingKey {
  return { id: vault.sealsWith, proof: vault.seal(proofText, proofPlace) }
}

/**
 * Checks the vault's keys against those the store knows; throws `SealError` when one has the id but not the bytes. True
 * when the sealing key is the only one that ever sealed here, so that all records are under it.
 */
export function isSettled(vault: Vault, known: readonly SealingKey[]): boolean {
  for (const { id, proof } of known) if (vault.keyIds.includes(id)) openProof(vault, id, proof)
  return known.length === 1 && known[0]?.id === vault.sealsWith
}

function openProof(vault: Vault, id: string, proof: string): void {
  try {
    vault.open(proof, proofPlace)
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    throw new SealError(`the encryption key ${id} is not the one this store was sealed with`, { cause: error })
  }
}

/** Seals stored values under a vault's first key. */
export class Resealer {
  readonly #vault: Vault
  readonly #known: ReadonlySet<string>
  readonly #log: ((sentence: string) => void) | undefined

  /** `known` are the keys that may have sealed something in this store. */
  constructor(vault: Vault, known: readonly SealingKey[], log: ((sentence: string) => void) | undefined) {
    this.#vault = vault
    this.#known = new Set(known.map(({ id }) => id))
    this.#log = log
  }

  /**
   * The stored value under the sealing key; undefined when it stays as it is. A damaged record stays, with a line in the
   * log: one bad record does not keep the store closed. Throws `SealError` when a key of this store is missing.
   */
  reseal(stored: unknown, place: SealedPlace): string | undefined {
    const vault = this.#vault
    const by = sealedWith(stored)
    if (by === vault.sealsWith) return undefined
    // Written before Sluice sealed. An empty value is never sealed.
    if (typeof stored === 'object') {
      return Object.keys(stored as object).length === 0 ? undefined : vault.seal(JSON.stringify(stored), place)
    }
    try {
      return vault.seal(vault.open(String(stored), place), place)
    } catch (error) {
      if (!(error instanceof SealError)) throw error
      if (by !== undefined && this.#known.has(by) && !vault.keyIds.includes(by)) throw error
      this.#log?.(`a sealed record is damaged and stays as it is: ${error.message}`)
      return undefined
    }
  }
}
