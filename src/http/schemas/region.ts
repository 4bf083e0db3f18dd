import { type Static, Type } from 'typebox'
import type { Region } from '../../store/regions.ts'
import { nullable } from './field.ts'
import { regionName } from './shaping.ts'

/** What creates a region. Without a secret, one is made. */
export const RegionIn = Type.Object({
  name: regionName,
  secret: Type.Optional(
    nullable(
      Type.String({
        minLength: 16,
        maxLength: 256,
        pattern: '^[\\x21-\\x7e]+$',
        description: 'What its pseudonyms are made with, in visible ASCII; made unless told',
      }),
    ),
  ),
})
export type RegionIn = Static<typeof RegionIn>

/** A region as callers see it; its secret is shown once, to whoever had it made. */
export function toRegionOut({ name, createdAt }: Region) {
  return { name, createdAt: new Date(createdAt).toISOString() }
}
