import { type Static, Type } from 'typebox'
import { integer, nullable } from './field.ts'

/** What changes an endpoint's secret; without a key, one of the same kind is made. */
export const SecretRotateIn = Type.Object({
  key: Type.Optional(nullable(Type.String())),
  gracePeriodSeconds: Type.Optional(nullable(integer(0, 7 * 24 * 60 * 60))),
})
export type SecretRotateIn = Static<typeof SecretRotateIn>
