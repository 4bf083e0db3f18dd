import type { FastifyInstance } from 'fastify'
import type { HttpContext } from '../context.ts'

/** Who runs schedules and sweeps for the whole store. */
export function leaderRoute(api: FastifyInstance, { store, clock }: HttpContext): void {
  api.get('/leader', async () => {
    const leader = await store.leader()
    if (leader === undefined) return { leader: null }
    const { description, epoch, sinceMs } = leader
    return { leader: { description, epoch, since: new Date(clock.now() - sinceMs).toISOString() } }
  })
}
