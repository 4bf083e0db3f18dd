import type { FastifyInstance } from 'fastify'
import { AppError, type FieldError } from '../../domain/app-error.ts'
import { olderSecretsLimit, rotated } from '../../domain/secrets.ts'
import type { HttpContext } from '../context.ts'
import type { EndpointScope } from '../endpoint-scope.ts'
import { refuseDamaged, requireEndpoint } from '../lookup.ts'
import { SecretRotateIn } from '../schemas/endpoint-secret.ts'
import { makeSecretLike, readSecret, receiverKey, secretProblem } from '../secret.ts'
import { compile, refuseIf } from '../validate.ts'

interface OfEndpoint {
  Params: { app: string; endpoint: string }
}

const rotateProblems = compile(SecretRotateIn, 'body')
const defaultGraceSeconds = 24 * 60 * 60

/** What a receiver verifies with, and changing it without a moment at which the receiver cannot verify. */
export function endpointSecretRoutes(api: FastifyInstance, context: HttpContext, scope: EndpointScope): void {
  const { store, randomBytes } = context
  const path = `${scope.path}/:endpoint/secret`

  api.get<OfEndpoint>(path, async ({ params }) => {
    const endpoint = await requireEndpoint(store, await scope.owner(params), params.endpoint)
    refuseDamaged(endpoint, 'secrets')
    return { key: receiverKey(endpoint.secrets[0]?.secret ?? '') }
  })

  api.post<OfEndpoint>(`${path}/rotate`, async ({ params, body }, reply) => {
    const { app, key } = await requireEndpoint(store, await scope.owner(params), params.endpoint)
    refuseIf(rotateProblems(body))
    const { key: text, gracePeriodSeconds } = body as SecretRotateIn
    const chosen = text == null ? undefined : readSecret(text)
    if (text != null && chosen === undefined) refuseIf([secretProblem('key')])
    const graceMs = (gracePeriodSeconds ?? defaultGraceSeconds) * 1000
    const after = await store.updateEndpoint(app, key, ({ secrets, flow }, now) => {
      const next = chosen ?? makeSecretLike(secrets[0]?.secret, randomBytes)
      if (flow.signature !== 'standard' && next.startsWith('whsk_')) refuseIf([sharedProblem(flow.signature)])
      const all = rotated(secrets, next, now, graceMs)
      if (all === undefined) throw tooMany()
      return { secrets: all }
    })
    if (after === undefined) throw new AppError('not_found', 'There is no such endpoint.')
    return reply.code(204).send()
  })
}

function sharedProblem(profile: string): FieldError {
  const message = `must be a shared secret, whsec_…: the endpoint's signatures are ${profile}`
  return { at: ['body', 'key'], message, type: 'secret' }
}

function tooMany(): AppError {
  return new AppError(
    'conflict',
    `${olderSecretsLimit} older secrets are still signing; wait until one has expired, or rotate without a grace period.`,
  )
}
