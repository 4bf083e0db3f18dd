import { AppPortalAccessOut } from '../answers/access.ts'
import { ApplicationTokenExpireIn, AppPortalAccessIn } from '../schemas/portal.ts'
import { tagged } from './operation.ts'

export const authenticationOperations = tagged('Authentication', {
  'POST /auth/app-portal-access/:app': {
    id: 'v1.authentication.app-portal-access',
    summary: "Let somebody into an application's portal",
    description: 'The token works for this application alone, for an hour unless `expiry` says otherwise.',
    body: AppPortalAccessIn,
    answers: { 200: AppPortalAccessOut },
  },
  'POST /auth/dashboard-access/:app': {
    id: 'v1.authentication.dashboard-access',
    summary: "Let somebody into an application's portal, by Svix's older name",
    answers: { 200: AppPortalAccessOut },
  },
  'POST /auth/app/:app/expire-all': {
    id: 'v1.authentication.expire-all',
    summary: 'End all tokens of an application, or those of some sessions',
    body: ApplicationTokenExpireIn,
    bodyOptional: true,
    answers: { 204: null },
  },
  'POST /auth/logout': {
    id: 'v1.authentication.logout',
    summary: 'End the token that this is asked with',
    answers: { 204: null },
  },
})
