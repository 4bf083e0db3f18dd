import { labels, uid } from '../domain/field.ts'
import type { NounField } from './noun.ts'

// Fields that several nouns have.

export const uidMeaning = 'Your own name for it, unique among its kind; accepted wherever the id is.'

/** A name that the caller chooses. */
export function uidField(prefix: string) {
  return {
    kind: uid(prefix),
    stays: true,
    flag: '--uid <UID>',
    description: uidMeaning,
    help: 'your own id for it, accepted wherever its id is',
  } as const satisfies NounField
}

export const metadataBytesLimit = 4096
export const metadataMeaning = `Your own labels, up to ${metadataBytesLimit} bytes as JSON.`

/** Labels of the caller's own. */
export const metadataField = {
  kind: labels,
  fallback: {},
  noNull: true,
  flag: '--metadata <NAME=VALUE>',
  description: metadataMeaning,
  help: 'metadata',
} as const satisfies NounField
