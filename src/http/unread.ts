import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { AppError } from '../domain/app-error.ts'
import { clientOf } from './client.ts'
import type { HttpLimits } from './context.ts'
import { Shares } from './shares.ts'

/** Smaller answers fit into what every connection holds anyway. */
const smallBytes = 64 * 1024
/** A stream has two parts in memory: one that the socket has not taken yet, and the next. */
const streamBytes = 512 * 1024

/**
 * Bounds the answers that clients leave unread. A connection whose client takes nothing for the write timeout is closed,
 * and a client with too much unread gets no further large answers. Answers to changes are not refused: what they tell has
 * happened.
 */
export function boundUnread(app: FastifyInstance, limits: HttpLimits): void {
  const shares = new Shares({ perClient: limits.maxUnreadPerClient, total: limits.maxUnread })
  app.addHook('onSend', (request, reply, payload, done) => {
    if (request.method === 'HEAD' && payload instanceof Readable) {
      // Fastify would read it to its end.
      payload.destroy()
      return done(null, Readable.from([]))
    }
    if (request.method !== 'GET') return done()
    const bytes = sizeOf(payload)
    if (bytes <= smallBytes) return done()
    const release = shares.take(clientOf(request), bytes)
    if (release === undefined) {
      if (payload instanceof Readable) payload.destroy()
      const message = 'Too many answers to this client are unread (maxUnreadPerClient, maxUnread); read them first.'
      return done(new AppError('rate_limited', message, [], { retryAfterSeconds: 1 }))
    }
    // A response that waits behind another one on its connection does not hear that the connection was closed.
    const { socket } = request.raw
    const end = () => {
      release()
      reply.raw.off('close', end)
      socket.off('close', end)
      if (payload instanceof Readable) payload.destroy()
    }
    reply.raw.once('close', end)
    socket.once('close', end)
    if (socket.destroyed) end()
    done()
  })
  // The timer runs out when nothing has moved on the connection. While a request is under way and no byte of its answer
  // waits, that is no fault of the client's.
  const busy = new WeakSet<Socket>()
  app.addHook('onRequest', (request, _reply, done) => {
    busy.add(request.raw.socket)
    done()
  })
  app.addHook('onResponse', (request, _reply, done) => {
    busy.delete(request.raw.socket)
    done()
  })
  app.server.setTimeout(limits.writeTimeout)
  app.server.on('timeout', (socket: Socket) => {
    if (socket.writableLength > 0 || !busy.has(socket)) socket.destroy()
  })
}

function sizeOf(payload: unknown): number {
  if (typeof payload === 'string' || payload instanceof Uint8Array) return payload.length
  return payload instanceof Readable ? streamBytes : 0
}
