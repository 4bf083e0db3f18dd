import { Type } from 'typebox'
import { nullable } from '../schemas/field.ts'
import { Instant, Labels } from './field.ts'

/** An application as callers see it. */
export const ApplicationOut = Type.Object({
  id: Type.String(),
  uid: nullable(Type.String()),
  name: Type.String(),
  throttleRate: nullable(Type.Integer()),
  rateLimit: nullable(Type.Integer({ description: "Svix's older name for throttleRate." })),
  dedupeSeconds: nullable(Type.Integer({ description: 'For how long publishing the same again stores nothing.' })),
  signatureHeaders: nullable(
    Type.Object(
      {
        id: Type.Optional(Type.String({ description: 'In place of `webhook-id`' })),
        timestamp: Type.Optional(
          Type.String({ description: 'In place of `webhook-timestamp` or `x-sluice-timestamp`' }),
        ),
        signature: Type.Optional(
          Type.String({ description: 'In place of `webhook-signature` or `x-sluice-signature`' }),
        ),
      },
      { description: "What its endpoints' requests call the headers they are signed with" },
    ),
  ),
  metadata: Labels,
  createdAt: Instant,
  updatedAt: Instant,
})
