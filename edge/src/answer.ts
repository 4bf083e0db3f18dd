/** The refusals of the edge. The codes are stable; docs/edge.md lists them with their remedies. */
export const refusals = {
  unknown_route: { status: 404, meaning: 'no route has the name in the path' },
  method_not_allowed: { status: 405, meaning: 'webhooks are sent with POST; a handshake of a provider may use GET' },
  slow_body: { status: 408, meaning: 'the body broke off, or took more than 10 s to arrive' },
  body_too_large: { status: 413, meaning: 'the body exceeds `maxBodyBytes` of the route' },
  headers_too_large: { status: 431, meaning: 'more than 100 headers, or more than 32 KiB of them' },
  not_genuine: { status: 401, meaning: 'the signature is missing, wrong or too old; `detail` says which' },
  no_id: { status: 400, meaning: 'the request has no id by which a duplicate could be recognized' },
  in_flight: {
    status: 409,
    meaning: 'the same delivery is being forwarded at this moment; `Retry-After` says when to repeat it',
  },
  full: { status: 429, meaning: 'the storage of the route is full; `Retry-After` says when to repeat the request' },
  storage_unavailable: { status: 503, meaning: 'the Durable Object or KV did not answer; nothing was forwarded' },
  unreachable: { status: 502, meaning: 'no connection to the target of the route, or one that broke' },
  target_timeout: { status: 504, meaning: 'the target did not answer within `timeoutSeconds`' },
  loop: { status: 508, meaning: 'the request was forwarded by an edge already: the route leads back to one' },
  keys_unavailable: { status: 503, meaning: 'the keys of the provider cannot be fetched now' },
  unauthorized: { status: 401, meaning: 'the bearer token is not `EDGE_TOKEN`' },
  not_found: { status: 404, meaning: 'there is no such failure, or no such path below `/-/`' },
  misconfigured: {
    status: 500,
    meaning: 'a variable or secret of the route is wrong; the log and `GET /-/status` say which',
  },
} as const

export type RefusalCode = keyof typeof refusals

/** The header in which the edge says what it did, so that an attempt in Sluice's history shows it. */
export const outcomeHeader = 'sluice-edge'

export type EdgeOutcome = 'forwarded' | 'duplicate' | 'stored' | 'superseded' | 'refused'

/** An answer of the edge itself. */
export function answer(
  status: number,
  outcome: EdgeOutcome,
  body: object,
  headers: Record<string, string> = {},
): Response {
  return Response.json(body, { status, headers: { ...headers, [outcomeHeader]: outcome } })
}

/** A request that the edge refuses. It left nothing behind, so that repeating it does no harm. */
export function refuse(code: RefusalCode, detail: string, headers: Record<string, string> = {}): Response {
  return answer(refusals[code].status, 'refused', { code, detail }, headers)
}

/** The header that asks a sender to wait; at least a second. */
export function retryAfter(ms: number): Record<string, string> {
  return { 'retry-after': String(Math.max(1, Math.ceil(ms / 1000))) }
}
