import type { FastifyInstance } from 'fastify'
import type { HttpContext } from '../context.ts'
import { isRef } from '../lookup.ts'
import { toStartedOut } from '../schemas/background-task.ts'
import { readSpan } from '../schemas/replay.ts'
import { AppUsageStatsIn } from '../schemas/statistics.ts'
import { compile, refuseIf } from '../validate.ts'

const usageProblems = compile(AppUsageStatsIn, 'body')

/** Counting over applications, as tasks: the answer is in the task's data. */
export function statisticsRoutes(api: FastifyInstance, { store, clock }: HttpContext): void {
  api.post('/stats/usage/app', async (request, reply) => {
    refuseIf(usageProblems(request.body))
    const body = request.body as AppUsageStatsIn
    const span = readSpan(body, clock.now())
    const refs = body.appIds ?? null
    const found = await Promise.all((refs ?? []).map((ref) => (isRef(ref) ? store.findApplication(ref) : undefined)))
    const unresolvedAppIds = (refs ?? []).filter((_, i) => found[i] === undefined)
    const apps = refs && [...new Set(found.flatMap((app) => (app === undefined ? [] : [app.key])))]
    const problem = { at: ['body', 'appIds'], message: 'names no application', type: 'unknown' }
    refuseIf(apps?.length === 0 ? [problem] : [])
    const work = { type: 'application.stats', input: { ...span, apps } } as const
    const task = await store.createTask({ app: null, work, data: { appStats: [] } })
    return reply.code(202).send({ ...toStartedOut(task), unresolvedAppIds })
  })

  api.put('/stats/usage/event-types', { config: { bodyOptional: true } }, async (_request, reply) => {
    const work = { type: 'event-type.aggregate', input: {} } as const
    const task = await store.createTask({ app: null, work, data: { event_types: [] } })
    return reply.code(202).send(toStartedOut(task))
  })
}
