import { AppError } from '../../domain/app-error.ts'
import { found } from '../../operations/lookup.ts'
import type { Services } from '../../operations/services.ts'
import { olderSecretsLimit, rotated } from '../../wire/secret.ts'
import type { ChangedFields, Source } from './noun.ts'
import { makeSourceToken } from './rules.ts'

/** Makes tokens of sources by their keys. */
export function tokenOf({ randomText }: Pick<Services, 'randomText'>): (key: number) => string {
  return (key) => makeSourceToken(key, randomText)
}

export async function rotateToken(services: Services, source: Source, gracePeriodSeconds: number): Promise<Source> {
  return change(services, source, ({ key, tokens }, now) => {
    const all = rotated(tokens, tokenOf(services)(key), now, gracePeriodSeconds * 1000)
    if (all !== undefined) return { tokens: all }
    const message = `${olderSecretsLimit} older URLs still work; wait until one has expired, or rotate without a grace period.`
    throw new AppError('conflict', message)
  })
}

export async function change(
  { store }: Services,
  { app, key, id }: Source,
  by: (source: Source, now: number) => ChangedFields,
): Promise<Source> {
  const changed = await store.updateSource(app, key, (stored, now) => {
    refuseDamagedSource(stored)
    return by(stored, now)
  })
  return found(changed, 'source', id)
}

/** Throws AppError `damaged_record` for a source whose stored secrets do not open. Some changes need none of them. */
export function refuseDamagedSource({ id, damaged }: Source, isConcerned = true): void {
  if (damaged !== true || !isConcerned) return
  throw new AppError(
    'damaged_record',
    `The stored secrets of ${id} cannot be opened; delete the source and make another.`,
  )
}
