import type { FastifyReply, FastifyRequest } from 'fastify'
import { jsonType } from '../domain/api.ts'
import { AppError } from '../domain/app-error.ts'
import { usedKey } from '../intake/publication.ts'
import { hasKey, onceOf, queryOf, replayed } from '../operations/idempotency.ts'
import type { Parts } from '../operations/parts.ts'
import type { Once } from '../store/publishing.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The key the request is carried out under, once it is. */
    once: Once | null
  }
}

type Params = Readonly<Record<string, string>>

/** How long a request may be under way before it counts as lost with the process that ran it. */
const reserveMs = 60_000

/**
 * The hooks of a route that happens once per Idempotency-Key: its answer is kept and given again. A request that was refused
 * leaves no trace.
 */
export function answerOnce({ store, onBug }: Pick<Parts, 'store' | 'onBug'>) {
  async function preHandler(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    if (!hasKey(request)) return
    const names = namesOf(request)
    const once = onceOf(request, names, `${queryOf(request.url)}\n${JSON.stringify(request.body)}`)
    const reservation = await store.reserve(once, reserveMs)
    if (reservation.state === 'mismatch') throw usedKey()
    if (reservation.state === 'in_flight') {
      throw new AppError('request_in_flight', 'A request with the same Idempotency-Key is being carried out.')
    }
    if (reservation.state === 'reserved') {
      request.once = once
      return
    }
    const { status, body } = reservation.answer
    reply.code(status).headers(replayed)
    if (body.byteLength > 0) reply.header('content-type', jsonType)
    await reply.send(body.byteLength > 0 ? body : undefined)
  }

  async function onSend({ once }: FastifyRequest, reply: FastifyReply, payload: unknown): Promise<void> {
    if (once === null) return
    try {
      const body = bytesOf(payload)
      const succeeded = reply.statusCode >= 200 && reply.statusCode < 300
      if (succeeded && body !== undefined) await store.complete(once, { status: reply.statusCode, body })
      else await store.abandon(once)
    } catch (error) {
      // The request is carried out, and its caller must learn so. The key frees itself.
      onBug(error)
    }
  }

  return { preHandler, onSend }
}

/** An answer as bytes; undefined when it is a stream. */
function bytesOf(payload: unknown): Uint8Array | undefined {
  if (payload === undefined || payload === null) return new Uint8Array(0)
  if (typeof payload === 'string') return Buffer.from(payload)
  return payload instanceof Uint8Array ? payload : undefined
}

/** The things that a path names, each by its id where it has one; a uid or an eventId is another name for the same. */
function namesOf({ params, call }: FastifyRequest): Params {
  const found: Readonly<Record<string, unknown>> = { ...call }
  return Object.fromEntries(
    Object.entries(params as Params).map(([name, ref]) => [name, (found[name] as { id?: string })?.id ?? ref]),
  )
}
