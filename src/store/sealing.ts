import { SealError, type SealedPlace, sealedWith, type Vault } from './vault.ts'

/** Rows looked at in one go when everything is sealed anew. */
export const sealingChunk = 200

/** The columns of an endpoint that are sealed. */
export const sealedFields = ['secrets', 'headers'] as const

/** What a vault proves its keys by: a constant text, sealed for a place no endpoint has. */
const proofText = 'sluice'
const proofPlace: SealedPlace = { app: 0, endpoint: 0, field: 'proof' }

/** A row of `sealing_key`: a key that may have sealed something in this store. */
export interface SealingKey {
  readonly id: string
  readonly proof: string
}

/** What a new row of `sealing_key` says. */
export function proofOf(vault: Vault): SealingKey {
  return { id: vault.sealsWith, proof: vault.seal(proofText, proofPlace) }
}

/**
 * Checks the vault's keys against those the store knows; throws `SealError` when one has the id but not the bytes. True
 * when the sealing key is the only one that ever sealed here, so that there is nothing to seal anew.
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

/** What a stored value becomes under the sealing key; undefined when it stays. Throws `SealError` when it does not open. */
export function resealed(vault: Vault, stored: unknown, place: SealedPlace): string | undefined {
  const by = sealedWith(stored)
  if (by === vault.sealsWith) return undefined
  if (by !== undefined) return vault.seal(vault.open(stored as string, place), place)
  // Written before Sluice sealed. What is empty is never sealed.
  return Object.keys(stored as object).length === 0 ? undefined : vault.seal(JSON.stringify(stored), place)
}
