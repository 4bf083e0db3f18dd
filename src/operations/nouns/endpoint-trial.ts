import { type Static, Type } from 'typebox'
import { AppError } from '../../domain/app-error.ts'
import type { Application } from '../../domain/endpoint.ts'
import type { Outcome } from '../../domain/outcome.ts'
import { headerNames } from '../../wire/receiver.ts'
import { makeSecret, readSecret, secretProblem } from '../../wire/secret.ts'
import { attempt, view } from '../access.ts'
import { closed, flag, nullable, optional, text, whole } from '../fields.ts'
import type { Parts, Trial } from '../parts.ts'
import { type Out, route } from '../route.ts'
import { refuseIf } from '../validate.ts'
import { exampleFor, ping } from './endpoint-control.ts'
import {
  AuthIn,
  ClientCertificateIn,
  completedProblems,
  credentialProblems,
  toAuth,
  toCertificates,
} from './endpoint-credentials.ts'
import { eventTypeName } from './event-type-import.ts'

/** A URL that is no endpoint yet, to send one example to. */
export const EndpointTrialIn = Type.Object(
  {
    url: Type.String({ minLength: 1, maxLength: 65_536, description: 'URL to send the example to.' }),
    eventType: optional(eventTypeName, `Event type of the example; \`${ping}\` by default.`),
    secret: optional(
      Type.String({ maxLength: 256 }),
      'Secret to sign with, which the endpoint can be created with later; a random one by default.',
    ),
    auth: optional(AuthIn, 'Credentials of the request, as of an endpoint.'),
    clientCertificate: optional(ClientCertificateIn, 'Certificate that the connection shows, as of an endpoint.'),
  },
  closed,
)

export const EndpointTrialOut = Type.Object({
  delivered: flag('Whether the receiver answered 2xx.'),
  code: text('The outcome by name, such as `delivered`, `timeout` or `tls_failed`.'),
  responseStatusCode: whole('0 when there was no answer'),
  responseDurationMs: whole('Duration of the attempt.'),
  response: text('Answer of the receiver, cut short.'),
  error: nullable(text('Why it failed, as a sentence.')),
})

const names = Type.Object({
  id: text('Header with the id of the message.'),
  timestamp: text('Header with the time of the attempt; empty where the signature header has it.'),
  signature: text('Header with the signatures.'),
})

const algorithms = ['hmac-sha256', 'ed25519'] as const

export const EndpointSignatureOut = Type.Object({
  profile: text('Signature profile of the endpoint.'),
  algorithm: Type.Enum([...algorithms], { description: 'Algorithm of the signatures, by the kind of the secret.' }),
  headers: Type.Array(names, { description: 'Headers that carry the signature. Two sets carry the same values.' }),
})

const longestTrialMs = 10_000
/** Trials under way at once, of one application and in all. */
const trialsPerApplication = 2
const trialsInAll = 16

export const endpointTrialRoutes = [
  route('POST /app/:app/endpoint/test', attempt, {
    id: 'v1.endpoint.test',
    summary: 'Send an example to a URL before it becomes an endpoint',
    description:
      'Makes one attempt at once (limit 10 s, and 10 s more for an access token). Stores nothing. The URL must meet the same rules as that of an endpoint.',
    body: EndpointTrialIn,
    answers: { 200: EndpointTrialOut },
    handle: async ({ app, body, request }, parts) => {
      const { url, eventType = ping } = body
      refuseIf([
        ...parts.checkUrl(url).map((message) => ({ at: ['body', 'url'], message, type: 'url' })),
        ...credentialProblems(body, parts.checkUrl),
      ])
      const auth = body.auth === undefined ? null : toAuth(body.auth)
      const clientCertificate = body.clientCertificate === undefined ? null : toCertificates(body.clientCertificate)
      refuseIf(completedProblems({ url, auth, clientCertificate }, undefined))
      const secret = secretOf(body, parts)
      const payload = Buffer.from(JSON.stringify(await exampleFor(parts, request.caller, eventType, 0)))
      const message = { id: `msg_test${parts.randomText(23)}`, eventType, body: payload }
      const signatureHeaders = app.settings.signatureHeaders ?? null
      return toTrialOut(await tryOnce(parts, app, { url, secret, auth, clientCertificate, signatureHeaders, message }))
    },
  }),
  route('GET /app/:app/endpoint/:endpoint/signature', view, {
    id: 'v1.endpoint.get-signature',
    summary: 'Get the names of the headers that carry the signature of an endpoint',
    answers: { 200: EndpointSignatureOut },
    handle: ({ app, endpoint }, { signatureHeaders }) => {
      const profile = endpoint.flow.signature
      const algorithm = endpoint.secrets[0]?.secret.startsWith('whsk_') ? algorithms[1] : algorithms[0]
      return {
        profile,
        algorithm,
        headers: [...headerNames(profile, app.settings.signatureHeaders ?? signatureHeaders)],
      }
    },
  }),
]

function secretOf({ secret }: Static<typeof EndpointTrialIn>, { randomBytes }: Parts): string {
  if (secret === undefined) return makeSecret(randomBytes)
  const read = readSecret(secret, 'standard')
  if (read === undefined) refuseIf([secretProblem('secret')])
  return read as string
}

const underWay = new WeakMap<object, Map<number, number>>()

/** Makes one attempt. A receiver that answers late keeps a slot of its application, and of no other. */
async function tryOnce(parts: Parts, app: Application, trial: Omit<Trial, 'timeoutMs'>): Promise<Outcome> {
  const counts = underWay.get(parts.store) ?? new Map<number, number>()
  underWay.set(parts.store, counts)
  const own = counts.get(app.key) ?? 0
  const all = [...counts.values()].reduce((sum, count) => sum + count, 0)
  if (own >= trialsPerApplication || all >= trialsInAll) {
    throw new AppError('rate_limited', 'Other tests are under way; try again when they have ended.', [], {
      retryAfterMs: 1000,
    })
  }
  counts.set(app.key, own + 1)
  try {
    return await parts.tryOnce({ ...trial, timeoutMs: Math.min(parts.serverDefaults.timeoutMs, longestTrialMs) })
  } finally {
    const left = (counts.get(app.key) ?? 1) - 1
    if (left === 0) counts.delete(app.key)
    else counts.set(app.key, left)
  }
}

function toTrialOut({ code, status, durationMs, response, error }: Outcome): Out<typeof EndpointTrialOut> {
  return {
    delivered: code === 'delivered',
    code,
    responseStatusCode: status,
    responseDurationMs: Math.round(durationMs),
    response: response === undefined ? '' : Buffer.from(response).toString('utf8'),
    error: error ?? null,
  }
}
