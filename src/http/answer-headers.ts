import type { FastifyInstance, FastifyReply } from 'fastify'

/**
 * Headers of every answer of the API: no browser may guess another type than the one named, and no cache may keep what
 * was shown to the owner of one key.
 */
export const answerHeaders = { 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' } as const

/** Sets the headers of every answer, errors included. A page that may be kept names its own. */
export function setAnswerHeaders(app: FastifyInstance): void {
  app.addHook('onRequest', (_request, reply, done) => {
    addAnswerHeaders(reply)
    done()
  })
}

/** Sets them on an answer that no hook ran for. */
export function addAnswerHeaders(reply: FastifyReply): void {
  reply.headers(answerHeaders)
}
