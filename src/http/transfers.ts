import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { AppError } from '../domain/app-error.ts'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import { Backlog } from '../domain/turns.ts'
import type { HttpLimits } from './app.ts'
import { announcedBytes } from './connection.ts'

/**
 * The client that a request counts for. A key or token of one application is one client wherever it is used; any other key
 * may be in use by several machines, of which each is one.
 */
function clientOf({ caller, address = '' }: FastifyRequest): string {
  if (caller == null) return address
  return caller.app === null ? `${caller.id} ${address}` : caller.id
}

/** Bytes in memory on behalf of clients: bounded for each, and in all. */
interface ShareLimits {
  readonly perClient: number
  readonly total: number
}

/**
 * Keeps account of bytes that are held for clients. When all of it is taken, clients that hold more than an equal share
 * are refused first; those below it still get theirs, up to twice the total.
 */
export class Shares {
  readonly #limits: ShareLimits
  readonly #held = new Map<string, number>()
  #total = 0

  constructor(limits: ShareLimits) {
    this.#limits = limits
  }

  /** Takes bytes for a client. The answer gives them back; undefined when the client may not have them. */
  take(client: string, bytes: number): (() => void) | undefined {
    const { perClient, total } = this.#limits
    const own = (this.#held.get(client) ?? 0) + bytes
    const all = this.#total + bytes
    // A single transfer larger than the share is allowed; otherwise it could never happen.
    if (own > perClient && own > bytes) return undefined
    const clients = this.#held.size + (this.#held.has(client) ? 0 : 1)
    if (all > total && this.#total > 0 && (own > total / clients || all > 2 * total)) return undefined
    this.#held.set(client, own)
    this.#total = all
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      this.#total -= bytes
      const left = (this.#held.get(client) ?? 0) - bytes
      if (left > 0) this.#held.set(client, left)
      else this.#held.delete(client)
    }
  }
}

/** Smaller bodies are not counted: they come with their head. */
const smallBodyBytes = 16 * 1024
/** The pace is measured over this long, so that a hiccup is no reason to end an upload. */
const windowMs = 5000
const sweepMs = 1000

/** Where a window began. */
interface Mark {
  readonly at: SteadyMs
  /** Bytes that the connection had received by then. */
  readonly bytes: number
}

/**
 * Bounds request bodies that are still arriving: their bytes, for each client and in all, and the pace they arrive at. A
 * body counts with its announced length, so that the bound holds before the bytes are in memory. A body that is held until
 * its answer counts until then: a source may have to wait for the keys of its sender.
 */
export function boundUploads(
  scope: FastifyInstance,
  clock: Clock,
  bodyLimitBytes: number,
  limits: Pick<HttpLimits, 'maxUploadPerClient' | 'maxUpload' | 'uploadPace'>,
  heldUntil: 'read' | 'answered',
): void {
  const shares = new Shares({ perClient: limits.maxUploadPerClient, total: limits.maxUpload })
  /** Gives the bytes of a body back that is held until its answer. */
  const held = new WeakMap<FastifyRequest, () => void>()
  /** The upload with the oldest window comes first. */
  const uploads = new Map<FastifyRequest, Mark>()
  let cancelSweep: (() => void) | undefined

  scope.addHook('preParsing', (request, reply, _payload, done) => {
    const bytes = Math.min(announcedBytes(request.headers) ?? bodyLimitBytes, bodyLimitBytes)
    if (bytes === 0) return done()
    uploads.set(request, { at: clock.steady(), bytes: request.raw.socket.bytesRead })
    cancelSweep ??= clock.after(sweepMs, sweep)
    if (bytes <= smallBodyBytes) return done()
    const release = shares.take(clientOf(request), bytes)
    if (release === undefined) {
      uploads.delete(request)
      reply.header('connection', 'close')
      const message = 'Too many request bodies of this client are under way (maxUploadPerClient, maxUpload).'
      return done(new AppError('rate_limited', message, [], { retryAfterMs: 1000 }))
    }
    if (heldUntil === 'answered') {
      held.set(request, release)
      return done()
    }
    request.raw.once('end', release)
    request.raw.once('close', release)
    done()
  })
  // Every request gets an answer, also one whose client has hung up.
  scope.addHook('onSend', (request, _reply, _payload, done) => {
    held.get(request)?.()
    done()
  })
  scope.addHook('preValidation', (request, _reply, done) => {
    uploads.delete(request)
    done()
  })
  scope.addHook('onClose', async () => cancelSweep?.())

  /** Ends uploads that are too slow. */
  function sweep(): void {
    const now = clock.steady()
    for (const [request, mark] of uploads) {
      const elapsedMs = now - mark.at
      if (elapsedMs < windowMs) break
      uploads.delete(request)
      // A body that is not read, or no more, has been answered already.
      if (request.raw.destroyed || request.raw.complete || request.raw.listenerCount('error') === 0) continue
      const bytes = request.raw.socket.bytesRead
      if (bytes - mark.bytes >= (elapsedMs / 1000) * limits.uploadPace) {
        uploads.set(request, { at: now, bytes })
        continue
      }
      const message = `The body arrives at less than ${limits.uploadPace} bytes per second (uploadPace).`
      // Ends the reading of the body, and only that: the answer goes out, and then the connection is closed.
      request.raw.emit('error', new AppError('request_timeout', message))
    }
    cancelSweep = uploads.size === 0 ? undefined : clock.after(sweepMs, sweep)
  }
}

/** Smaller answers fit into what every connection holds anyway. */
const smallAnswerBytes = 64 * 1024
/** A stream has two parts in memory: the part that the socket has not taken yet, and the next. */
const streamBytes = 512 * 1024

/**
 * Bounds the answers that clients leave unread. A connection whose client takes nothing for the write timeout is closed,
 * and a client with too much unread gets no further large answers. Answers to changes are not refused: the
 * change has happened.
 */
export function boundUnread(app: FastifyInstance, clock: Clock, limits: HttpLimits): void {
  const shares = new Shares({ perClient: limits.maxUnreadPerClient, total: limits.maxUnread })
  app.addHook('onSend', (request, reply, payload, done) => {
    if (request.method === 'HEAD' && payload instanceof Readable) {
      // Fastify would read it to its end.
      payload.destroy()
      return done(null, Readable.from([]))
    }
    if (request.method !== 'GET') return done()
    const bytes = sizeOf(payload)
    if (bytes <= smallAnswerBytes) return done()
    const release = shares.take(clientOf(request), bytes)
    if (release === undefined) {
      if (payload instanceof Readable) payload.destroy()
      const message = 'Too many answers to this client are unread (maxUnreadPerClient, maxUnread); read them first.'
      return done(new AppError('rate_limited', message, [], { retryAfterMs: 1000 }))
    }
    // A response that waits behind another one on its connection gets no event when the connection closes.
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
  // waits, the client is not at fault.
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
  // Connections that were opened together run out of time together.
  const late = new Backlog<Socket>(clock, (socket) => socket.destroy())
  app.server.on('timeout', (socket: Socket) => {
    if (socket.writableLength > 0 || !busy.has(socket)) late.add(socket)
  })
}

function sizeOf(payload: unknown): number {
  if (typeof payload === 'string' || payload instanceof Uint8Array) return payload.length
  return payload instanceof Readable ? streamBytes : 0
}
