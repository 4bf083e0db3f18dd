import type { FastifyInstance, FastifyRequest } from 'fastify'
import { AppError } from '../domain/app-error.ts'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import { clientOf } from './client.ts'
import type { HttpLimits } from './context.ts'
import { Shares } from './shares.ts'

/** Smaller bodies are not counted: they come with their head. */
const smallBytes = 16 * 1024
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
 * body counts with its announced length, so that the bound holds before the bytes are in memory.
 */
export function boundUploads(
  scope: FastifyInstance,
  clock: Clock,
  bodyLimitBytes: number,
  limits: Pick<HttpLimits, 'maxUploadPerClient' | 'maxUpload' | 'uploadPace'>,
): void {
  const shares = new Shares({ perClient: limits.maxUploadPerClient, total: limits.maxUpload })
  /** The one whose window began first comes first. */
  const uploads = new Map<FastifyRequest, Mark>()
  let cancelSweep: (() => void) | undefined

  scope.addHook('preParsing', (request, reply, _payload, done) => {
    const bytes = announced(request, bodyLimitBytes)
    if (bytes === 0) return done()
    uploads.set(request, { at: clock.steady(), bytes: request.raw.socket.bytesRead })
    cancelSweep ??= clock.after(sweepMs, sweep)
    if (bytes <= smallBytes) return done()
    const release = shares.take(clientOf(request), bytes)
    if (release === undefined) {
      uploads.delete(request)
      reply.header('connection', 'close')
      const message = 'Too many request bodies of this client are under way (maxUploadPerClient, maxUpload).'
      return done(new AppError('rate_limited', message, [], { retryAfterSeconds: 1 }))
    }
    request.raw.once('end', release)
    request.raw.once('close', release)
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

/** How many bytes the body may have; 0 without one. */
function announced({ headers }: FastifyRequest, limit: number): number {
  const length = headers['content-length']
  if (length !== undefined) return Math.min(Number(length), limit)
  return headers['transfer-encoding'] === undefined ? 0 : limit
}
