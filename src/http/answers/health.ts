import { Type } from 'typebox'
import { nullable } from '../schemas/field.ts'

const Part = Type.Object({ status: Type.Enum(['healthy', 'unhealthy']) })

/** Which process sees to what is done once for the whole store. */
export const LeaderOut = Type.Object({
  leader: nullable(
    Type.Object({
      description: Type.String({ description: 'Which process it is' }),
      epoch: Type.Integer({ description: 'How many have led so far' }),
      since: Type.String({ format: 'date-time', description: 'Since when it leads' }),
    }),
  ),
})

/** Whether the store answers. */
export const HealthOut = Type.Object({ database: Part, queue: Part, cache: Part })
