import { Type } from 'typebox'
import { AppError, type FieldError } from '../../domain/app-error.ts'
import { olderSecretsLimit, rotated } from '../../domain/secrets.ts'
import { maybe } from '../fields.ts'
import { found, refuseDamaged } from '../lookup.ts'
import { type Route, route } from '../route.ts'
import { integer } from '../schemas/field.ts'
import { makeSecretLike, readSecret, receiverKey, secretProblem } from '../secret.ts'
import { refuseIf } from '../validate.ts'
import type { Place } from './endpoint-place.ts'

const defaultGraceSeconds = 24 * 60 * 60

export const EndpointSecretOut = Type.Object({
  key: Type.String({ description: '`whsec_…` for HMAC; the public half, `whpk_…`, for ed25519.' }),
})

/** Changes an endpoint's secret; without a key, a new one of the same kind is made. */
export const EndpointSecretRotateIn = Type.Object({
  key: maybe(Type.String()),
  gracePeriodSeconds: maybe(integer(0, 7 * 24 * 60 * 60)),
})

/** The secret that a receiver verifies with, and its rotation without a moment in which the receiver cannot verify. */
export function endpointSecretRoutes({ path, id, needs }: Place): Route[] {
  return [
    route({
      method: 'GET',
      path: `${path}/:endpoint/secret`,
      need: needs.viewSecret,
      id: `${id}.get-secret`,
      summary: "Get an endpoint's signing secret",
      answers: { 200: EndpointSecretOut },
      handle: ({ endpoint }) => {
        refuseDamaged(endpoint, 'secrets')
        return { key: receiverKey(endpoint.secrets[0]?.secret ?? '') }
      },
    }),
    route({
      method: 'POST',
      path: `${path}/:endpoint/secret/rotate`,
      need: needs.changeSecret,
      id: `${id}.rotate-secret`,
      summary: "Change an endpoint's signing secret",
      description: 'The old one goes on signing beside the new one for the grace period, a day by default.',
      body: EndpointSecretRotateIn,
      answers: { 204: null },
      handle: async ({ endpoint, params, body }, { store, randomBytes }) => {
        const chosen = body.key == null ? undefined : readSecret(body.key)
        if (body.key != null && chosen === undefined) refuseIf([secretProblem('key')])
        const graceMs = (body.gracePeriodSeconds ?? defaultGraceSeconds) * 1000
        const changed = await store.updateEndpoint(endpoint.app, endpoint.key, ({ secrets, flow }, now) => {
          const next = chosen ?? makeSecretLike(secrets[0]?.secret, randomBytes)
          if (flow.signature !== 'standard' && next.startsWith('whsk_')) refuseIf([sharedProblem(flow.signature)])
          const all = rotated(secrets, next, now, graceMs)
          if (all === undefined) throw tooMany()
          return { secrets: all }
        })
        found(changed, 'endpoint', params.endpoint)
      },
    }),
  ]
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
