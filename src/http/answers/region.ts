import { Type } from 'typebox'
import { Instant } from './field.ts'

const name = Type.String({ description: 'What endpoints name it by' })

/** A region as callers see it. */
export const RegionOut = Type.Object({ name, createdAt: Instant })

/** A region that was just created. */
export const RegionCreatedOut = Type.Object({
  name,
  createdAt: Instant,
  secret: Type.Optional(Type.String({ description: 'What was made for it; shown this once' })),
})
