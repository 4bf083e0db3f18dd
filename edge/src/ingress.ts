import type { Answer } from '../../src/sources/arrival.ts'
import { answer, type EdgeOutcome, outcomeHeader, refuse, retryAfter } from './answer.ts'
import { digestOf, shardOf } from './digest.ts'
import { askedWaitMs, forward, isFinalFor, isSuccess, passedBack } from './forward.ts'
import type { Incoming } from './incoming.ts'
import type { Env, IngressRoute } from './route.ts'
import { attempted } from './storage.ts'

/** After trouble with Sluice, an isolate stores the requests of a route at once for this long. */
const troubleMs = 5000
const firstRetryMs = 1000
const warnEveryMs = 10_000
const troubledUntil = new Map<string, number>()

/**
 * Takes a webhook of a third party for a source of Sluice. The request is verified here, answered by Sluice if Sluice
 * answers, and stored otherwise. An answer of success means that the event is in Sluice's store or on the edge's disk.
 * Sluice verifies the same bytes and headers once more.
 */
export async function ingress(route: IngressRoute, env: Env, incoming: Incoming): Promise<Response> {
  const { request, headers, body } = incoming
  const { method, url } = request
  const judgement = await route.judge({ method, url, headers: Object.fromEntries(request.headers), body }, Date.now())
  switch (judgement.kind) {
    case 'refused':
      warn(route.name, 'not genuine', judgement)
      if (judgement.code === 'wrong_method') return refuse('method_not_allowed', judgement.reason)
      return refuse('not_genuine', 'The signature or the credentials of the request are missing, wrong or too old.')
    case 'unavailable':
      // The reason names a URL of the operator, which is not for the sender.
      warn(route.name, 'keys unavailable', { code: 'keys_unavailable', reason: judgement.reason })
      return refuse(
        'keys_unavailable',
        'The keys of the provider cannot be fetched now.',
        retryAfter(judgement.retryAfterMs),
      )
    case 'answer':
      return asResponse(judgement.answer)
  }
  const { search: query } = new URL(url)
  let dueInMs = firstRetryMs
  if (Date.now() >= (troubledUntil.get(route.name) ?? 0)) {
    const forwarded = await forward({ url: `${route.to}${query}`, headers, body, timeoutMs: route.timeoutMs })
    // The source may have another provider than the route, and answer in another way than the sender expects.
    if (isSuccess(forwarded) && route.accepted !== undefined) return asResponse(route.accepted, 'forwarded')
    if (isSuccess(forwarded) || isFinalFor('ingress', forwarded)) return passedBack(forwarded)
    troubledUntil.set(route.name, Date.now() + troubleMs)
    dueInMs = Math.max(dueInMs, askedWaitMs(forwarded, Date.now()))
  }
  // An event that comes again with the same bytes takes the place of the one that waits. Without an id, each is another.
  const kind = await digestOf(judgement.eventId ?? crypto.randomUUID(), body)
  const outbox = env.OUTBOX.getByName(`${route.name}/${shardOf(kind, route.shards)}`)
  const id = judgement.eventId ?? ''
  const stored = await attempted(() => outbox.put({ route: route.name, kind, id, query, headers, body, dueInMs }))
  if (stored === undefined) return refuse('storage_unavailable', 'The queue did not answer.', retryAfter(1000))
  if (stored === 'full') return refuse('full', 'Too many events wait for Sluice.', retryAfter(60_000))
  if (route.accepted !== undefined) return asResponse(route.accepted, 'stored')
  return answer(202, 'stored', { outcome: 'stored', detail: 'The event is handed on when Sluice answers.' })
}

const refusedSince = new Map<string, { readonly at: number; count: number }>()

/** Logs one refused request of a route every ten seconds, with the number of those before: a flood must not fill the log. */
function warn(route: string, event: string, { code, reason }: { code: string; reason: string }): void {
  const last = refusedSince.get(route)
  if (last !== undefined && Date.now() - last.at < warnEveryMs) {
    last.count++
    return
  }
  console.warn(JSON.stringify({ event, route, code, reason, unlogged: last?.count ?? 0 }))
  refusedSince.set(route, { at: Date.now(), count: 0 })
}

/** An answer that the provider expects word for word. */
function asResponse({ status, headers, body }: Answer, outcome?: EdgeOutcome): Response {
  const marked = outcome === undefined ? headers : { ...headers, [outcomeHeader]: outcome }
  return new Response(body === '' ? null : body, { status, headers: marked })
}
