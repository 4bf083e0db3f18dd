import type { FastifyInstance } from 'fastify'
import { StoreTrouble } from '../../store/store.ts'
import type { HttpContext } from '../context.ts'

const parts = (status: 'healthy' | 'unhealthy') => ({
  // Queue and cache live in the database; Svix's clients expect all three.
  database: { status },
  queue: { status },
  cache: { status },
})

/** Whether the server answers (`/health/ping`) and whether its store does (`/health`). No key is needed. */
export function healthRoutes(api: FastifyInstance, { store }: HttpContext): void {
  api.get('/health/ping', (_request, reply) => reply.code(204).send())

  api.get('/health', async (_request, reply) => {
    try {
      await store.ping()
      return parts('healthy')
    } catch (error) {
      if (!(error instanceof StoreTrouble)) throw error
      return reply.code(503).header('retry-after', '2').send(parts('unhealthy'))
    }
  })
}
