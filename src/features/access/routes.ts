import { Type } from 'typebox'
import { AppError, noSuch } from '../../domain/app-error.ts'
import { admin, endSession, ownAccess } from '../../operations/access.ts'
import { fixedCaller } from '../../operations/auth.ts'
import { closed, integer, maybe, metadataProblems } from '../../operations/fields.ts'
import { newUid } from '../../operations/lookup.ts'
import { type Noun, route } from '../../operations/route.ts'
import { refuseIf } from '../../operations/validate.ts'
import { toNewApplication } from '../applications/schemas.ts'
import { AccessOut, AppPortalAccessIn, AppPortalAccessOut, letIn, sessionId, toAccessOut, week } from './schemas.ts'

const ApplicationTokenExpireIn = Type.Object(
  {
    expiry: maybe(integer(0, week), 'Seconds from now.'),
    sessionIds: Type.Optional(Type.Array(sessionId, { maxItems: 1000, description: 'Only tokens of these sessions.' })),
  },
  closed,
)

export const authentication = {
  tag: 'Authentication',
  description: 'Tokens for the portal of one application.',
  schemas: { AppPortalAccessIn, AppPortalAccessOut, ApplicationTokenExpireIn, AccessOut },
  routes: [
    route('POST /auth/app-portal-access/:app', admin, {
      id: 'v1.authentication.app-portal-access',
      summary: 'Make a link to the portal of an application',
      description: 'The token works for this application alone, for an hour unless `expiry` says otherwise.',
      body: AppPortalAccessIn,
      answers: { 200: AppPortalAccessOut },
      answersSecret: true,
      lookup: 'upsert',
      handle: async ({ app, params, body, request }, services) => {
        const { application } = body
        refuseIf(metadataProblems(application?.metadata))
        if (app !== undefined) return letIn(services, request, app, body)
        if (application == null) throw noSuch('application', params.app)
        const uid = application.uid ?? newUid('application', 'app', params.app)
        const made = toNewApplication({ ...application, uid })
        return letIn(services, request, await services.store.createApplication(made), body)
      },
    }),
    route('POST /auth/dashboard-access/:app', admin, {
      id: 'v1.authentication.dashboard-access',
      summary: 'Make a link to the portal of an application (older path)',
      answers: { 200: AppPortalAccessOut },
      answersSecret: true,
      handle: ({ app, request }, services) => letIn(services, request, app, {}),
    }),
    route('POST /auth/app/:app/expire-all', admin, {
      id: 'v1.authentication.expire-all',
      summary: 'End all tokens of an application, or those of some sessions',
      body: ApplicationTokenExpireIn,
      answers: { 204: null },
      handle: async ({ app, body: { expiry, sessionIds = [] } }, { store, auth }) => {
        await store.expireAppTokens(app.key, sessionIds.length === 0 ? null : sessionIds, (expiry ?? 0) * 1000)
        auth.forget()
      },
    }),
    route('GET /auth/access', ownAccess, {
      id: 'v1.authentication.access',
      summary: 'Get what the key or token of this request may do',
      answers: { 200: AccessOut },
      handle: ({ request: { caller } }) => toAccessOut(caller ?? fixedCaller),
    }),
    route('POST /auth/logout', endSession, {
      id: 'v1.authentication.logout',
      summary: 'End the token of this request',
      answers: { 204: null },
      handle: async ({ request: { caller } }, { store, auth }) => {
        if (caller?.capabilities === undefined) {
          const message = 'Only an application token can be logged out; revoke a key instead.'
          throw new AppError('insufficient_access', message)
        }
        await store.endAppToken(caller.key)
        auth.forget()
      },
    }),
  ],
} satisfies Noun
