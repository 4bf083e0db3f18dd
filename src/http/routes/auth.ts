import type { FastifyInstance, FastifyRequest } from 'fastify'
import { AppError } from '../../domain/app-error.ts'
import type { Application } from '../../domain/endpoint.ts'
import { capabilities } from '../access.ts'
import { hashApiKey, makeAppToken } from '../api-key.ts'
import { type Authenticator, fixedCaller } from '../auth.ts'
import type { HttpContext } from '../context.ts'
import { getApplication, isRef } from '../lookup.ts'
import { toNewApplication } from '../schemas/application.ts'
import { metadataProblems } from '../schemas/field.ts'
import { ApplicationTokenExpireIn, AppPortalAccessIn } from '../schemas/portal.ts'
import { compile, refuseIf } from '../validate.ts'

interface OfApp {
  Params: { app: string }
}

const accessProblems = compile(AppPortalAccessIn, 'body')
const expireProblems = compile(ApplicationTokenExpireIn, 'body')
const defaultExpirySeconds = 3600

/** Letting people into one application's portal, and out again. */
export function authRoutes(api: FastifyInstance, context: HttpContext, auth: Authenticator): void {
  const { store, randomText, publicUrl } = context

  api.post<OfApp>('/auth/app-portal-access/:app', { config: { answersSecret: true } }, async (request) => {
    refuseIf(accessProblems(request.body))
    const input = request.body as AppPortalAccessIn
    refuseIf(metadataProblems(input.application?.metadata))
    return letIn(request, await findOrMake(request.params.app, input.application), input)
  })

  /** Svix's older name for it. */
  api.post<OfApp>(
    '/auth/dashboard-access/:app',
    { config: { answersSecret: true, bodyOptional: true } },
    async (request) => letIn(request, await getApplication(store, request.params.app), {}),
  )

  api.post<OfApp>('/auth/app/:app/expire-all', { config: { bodyOptional: true } }, async (request, reply) => {
    const { key } = await getApplication(store, request.params.app)
    const body = request.body === undefined ? {} : request.body
    refuseIf(expireProblems(body))
    const { expiry, sessionIds = [] } = body as ApplicationTokenExpireIn
    await store.expireAppTokens(key, sessionIds.length === 0 ? null : sessionIds, (expiry ?? 0) * 1000)
    auth.forget()
    return reply.code(204).send()
  })

  api.post('/auth/logout', { config: { bodyOptional: true } }, async (request, reply) => {
    const { caller } = request
    if (caller?.capabilities === undefined) {
      throw new AppError('insufficient_access', 'Only an application token can be logged out; revoke a key instead.')
    }
    await store.endAppToken(caller.key)
    auth.forget()
    return reply.code(204).send()
  })

  async function letIn(request: FastifyRequest, app: Application, input: AppPortalAccessIn) {
    const token = makeAppToken(randomText)
    await store.createAppToken({
      app: app.key,
      hash: hashApiKey(token),
      capabilities: input.readOnly === true ? ['ViewBase'] : (input.capabilities ?? capabilities),
      sessionId: input.sessionId ?? null,
      // The key of the settings has no row; the tokens it makes end by themselves or with expire-all.
      madeBy: request.caller?.id === fixedCaller.id ? null : (request.caller?.key ?? null),
      expiresInMs: (input.expiry ?? defaultExpirySeconds) * 1000,
    })
    // Behind the #, which browsers keep to themselves: it is in no log and in no Referer.
    const base = publicUrl ?? `${request.protocol}://${request.host}`
    return { url: `${base}/portal#app=${app.id}&token=${token}`, token }
  }

  async function findOrMake(ref: string, input: AppPortalAccessIn['application']): Promise<Application> {
    const known = isRef(ref) ? await store.findApplication(ref) : undefined
    if (known !== undefined || input == null) return known ?? getApplication(store, ref)
    return store.createApplication(toNewApplication({ ...input, uid: input.uid ?? ref }))
  }
}
