import { Readable } from 'node:stream'
import { apiRoot, jsonType } from '../domain/api.ts'
import { AppError } from '../domain/app-error.ts'
import { Turns } from '../domain/turns.ts'
import { auditOf, isWrittenLate } from '../features/audit/service.ts'
import { usedKey } from '../intake/publication.ts'
import type { Once } from '../store/publishing.ts'
import { type CheckedCall, checkCall, hasKey, namesOf, onceOf, parserOf, queryOf, replayed } from './check.ts'
import { finderOf } from './lookup.ts'
import { type Incoming, keepsAnswer, Reply, type Route, urlOf } from './route.ts'
import type { Services } from './services.ts'
import { IgnoredFields, type UnknownFields } from './unknown-names.ts'

/** The way of a request through its route, the same for every transport: it takes bytes and gives an answer. */
export type Pipeline = (request: Incoming, transport: Transport) => Promise<Answer>

/** The share of a transport. */
export interface Transport {
  readonly unknownFields: UnknownFields
  /** Called when the request is checked: fields are named as ignored also when it is refused later. */
  checked?(call: CheckedCall): void
  /** Throws when the caller has gone. From here on the change is made, and its row in the audit log. */
  begins?(): void
}

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** A value that JSON stands for, bytes, a stream of them, or undefined for no body. */
  readonly body: unknown
  /** The content type of bytes and streams. */
  readonly type: string
}

/** Reading this much takes half a millisecond or more. */
const largeBodyBytes = 64 * 1024
const jsonLines = 'application/jsonl; charset=utf-8'
const events = 'text/event-stream; charset=utf-8'
/** How long a request may be under way before it counts as lost with the process that ran it. */
const reserveMs = 60_000

/**
 * Makes the pipeline of a route: read → check → find → once → audit → handle → answer. Errors go to the transport, which
 * answers them as it can.
 */
export function pipelineOf(route: Route, services: Services): Pipeline {
  const { store } = services
  const read = parserOf(route, services.scanner)
  const find = finderOf(route)
  const keeps = keepsAnswer(route)
  const entryOf = route.need === 'open' ? undefined : auditOf(route.method, pathOf(route), route.need)
  const turns = Turns.by(services.clock)

  return async (request, transport) => {
    // A large body is read in a turn of its own, so that many of them never make one long turn.
    if (Buffer.isBuffer(request.body) && request.body.length >= largeBodyBytes) await turns.next()
    request.body = read(request)
    const call = checkCall(route, request, new IgnoredFields(transport.unknownFields))
    transport.checked?.(call)
    await find?.(store, call)

    const trail = entryOf && { entry: entryOf(request, call), written: false }
    const kept = keeps && hasKey(request) ? await reserve(request, call, services) : undefined
    if (kept?.answer !== undefined) return kept.answer

    const handle = async () => answerOf(route, call, await route.handle(call as never, services))
    let answer: Answer
    try {
      if (trail === undefined) answer = await handle()
      else {
        transport.begins?.()
        answer = await store.trailing(trail, handle)
      }
    } catch (error) {
      if (kept !== undefined) await settled(services, () => store.abandon(kept.once))
      throw error
    }
    if (kept !== undefined) answer = await keep(answer, kept.once, services)
    if (trail !== undefined && !trail.written) {
      // Work that still runs for this call must not write the row a second time.
      trail.written = true
      if (answer.status < 300 && isWrittenLate(trail.entry)) await store.appendAudit(trail.entry)
    }
    return answer
  }
}

/** The path of a route as the audit log names it. */
function pathOf(route: Route): string {
  const url = urlOf(route)
  return url.startsWith(apiRoot) ? url.slice(apiRoot.length) : url
}

/** Reserves the Idempotency-Key of a request, or finds the answer that was given under it. */
async function reserve(
  request: Incoming,
  call: CheckedCall,
  { store }: Services,
): Promise<{ readonly once: Once; readonly answer?: Answer }> {
  const once = onceOf(request, namesOf(call), `${queryOf(request.url)}\n${JSON.stringify(request.body)}`)
  const reservation = await store.reserve(once, reserveMs)
  if (reservation.state === 'mismatch') throw usedKey()
  if (reservation.state === 'in_flight') {
    throw new AppError('request_in_flight', 'A request with the same Idempotency-Key is being carried out.')
  }
  if (reservation.state === 'reserved') return { once }
  const { status, body } = reservation.answer
  return { once, answer: { status, headers: replayed, body: body.byteLength > 0 ? body : undefined, type: jsonType } }
}

/** Keeps a successful answer under its key. A request that was refused leaves no trace, and a stream is not kept. */
async function keep(answer: Answer, once: Once, services: Services): Promise<Answer> {
  const { status, body } = answer
  const isKept = status >= 200 && status < 300 && !(body instanceof Readable)
  if (!isKept) {
    await settled(services, () => services.store.abandon(once))
    return answer
  }
  const bytes =
    body === undefined ? new Uint8Array(0) : Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body))
  await settled(services, () => services.store.complete(once, { status, body: bytes }))
  return body === undefined ? answer : { ...answer, body: bytes }
}

/** The request is carried out, or refused, and its caller must learn so. A key that stays reserved frees itself. */
async function settled({ onBug }: Pick<Services, 'onBug'>, settle: () => Promise<unknown>): Promise<void> {
  try {
    await settle()
  } catch (error) {
    onBug(error)
  }
}

/** A plain value has the first status of the route. */
function answerOf({ answers }: Route, { ignored }: CheckedCall, handled: unknown): Answer {
  const reply = handled instanceof Reply ? handled : new Reply(Number(Object.keys(answers)[0]), handled)
  const { status, value } = reply
  const schema = answers[status]
  const type = schema == null || !('lines' in schema) ? jsonType : 'events' in schema ? events : jsonLines
  const headers = ignored.isEmpty ? reply.headers : { ...reply.headers, [ignoredHeader]: String(ignored) }
  return { status, headers, body: schema === null ? undefined : value, type }
}

export const ignoredHeader = 'sluice-ignored-fields'
