import { Type } from 'typebox'

const Part = Type.Object({ status: Type.Enum(['healthy', 'unhealthy']) })

/** Whether the store answers. */
export const HealthOut = Type.Object({ database: Part, queue: Part, cache: Part })
