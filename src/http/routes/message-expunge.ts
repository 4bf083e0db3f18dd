import type { FastifyInstance } from 'fastify'
import { toStartedOut } from '../api/background-task.ts'
import type { HttpContext } from '../context.ts'
import { getApplication, isRef } from '../lookup.ts'
import { BulkExpungeIn } from '../schemas/message-list.ts'
import { compile, refuseIf } from '../validate.ts'

interface OfApp {
  Params: { app: string }
}

const bulkProblems = compile(BulkExpungeIn, 'body')

/** What was published a moment ago may have a key of the next millisecond, or of a store whose clock is a little ahead. */
const skewMs = 1000

/** Erasing what many messages said: those that are named at once, all of an application in the background. */
export function messageExpungeRoutes(api: FastifyInstance, { store, clock }: HttpContext): void {
  api.post<OfApp>('/app/:app/msg/bulk-expunge', async (request) => {
    refuseIf(bulkProblems(request.body))
    const { key: app } = await getApplication(store, request.params.app)
    const results = new Map<string, 'expunged' | 'not-found'>()
    for (const id of (request.body as BulkExpungeIn).ids ?? []) {
      const message = isRef(id) ? await store.findMessage(app, id) : undefined
      if (message !== undefined) await store.expungeMessage(message.key)
      results.set(id, message === undefined ? 'not-found' : 'expunged')
    }
    return { results: Object.fromEntries(results) }
  })

  api.post<OfApp>('/app/:app/msg/expunge-all-contents', { config: { bodyOptional: true } }, async (request, reply) => {
    const { key: app } = await getApplication(store, request.params.app)
    const input = { since: 0, until: clock.now() + skewMs }
    const work = { type: 'application.purge_content', input } as const
    const task = await store.createTask({ app, work, data: { scanned: 0, messagesPurged: 0 } })
    return reply.code(202).send(toStartedOut(task))
  })
}
