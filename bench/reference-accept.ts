import type { AddressInfo } from 'node:net'
import fastify from 'fastify'
import { type Dispatcher, Pool } from 'undici'
import { answer } from './child.ts'

/**
 * The reference for accepting: a Fastify route that parses the same body and answers 202 with a body
 * of the same shape and size, and stores nothing. For latency it also forwards the payload, which it forgets if it dies.
 */

export type AcceptCommands = typeof commands

interface Publish {
  readonly eventType: string
  readonly payload: unknown
}

const commands = {
  /** Serves `POST /api/v1/app/:app/msg`; with a URL, each payload is sent on to it after the answer. */
  async listen({ forwardTo, connections }: { forwardTo?: string; connections: number }): Promise<string> {
    const forward = forwardTo === undefined ? undefined : forwarder(forwardTo, connections)
    let accepted = 0
    const server = fastify({ logger: false })
    server.post<{ Body: Publish }>('/api/v1/app/:app/msg', (request, reply) => {
      const { eventType, payload } = request.body
      const id = `msg_${String(++accepted).padStart(27, '0')}`
      const timestamp = new Date().toISOString()
      reply.code(202).send({ id, eventType, payload, eventId: null, channels: null, timestamp })
      forward?.(id, JSON.stringify(payload))
    })
    await server.listen({ host: '127.0.0.1', port: 0 })
    return `http://127.0.0.1:${(server.server.address() as AddressInfo).port}/api/v1/app/app_reference/msg`
  },
}

function forwarder(url: string, connections: number): (id: string, body: string) => void {
  const { origin, pathname } = new URL(url)
  const pool = new Pool(origin, { connections, pipelining: 1, allowH2: false })
  const handler: Dispatcher.DispatchHandler = {
    onRequestStart() {},
    onResponseStart() {},
    onResponseData() {},
    onResponseEnd() {},
    onResponseError(_controller, error) {
      throw error
    },
  }
  return (id, body) => {
    pool.dispatch({ path: pathname, method: 'POST', headers: ['webhook-id', id], body }, handler)
  }
}

answer(commands)
