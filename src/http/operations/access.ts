import { AppPortalAccessOut, AuditOut, AuditVerifyOut } from '../answers/access.ts'
import { listOf } from '../answers/field.ts'
import { AuditQuery } from '../schemas/audit.ts'
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

export const auditOperations = tagged('Audit', {
  'GET /audit': {
    id: 'v1.audit.list',
    summary: 'List what was changed, by whom',
    query: AuditQuery,
    answers: { 200: listOf(AuditOut) },
  },
  'GET /audit/verify': {
    id: 'v1.audit.verify',
    summary: 'Check that nobody changed the audit log',
    answers: { 200: AuditVerifyOut },
  },
})
