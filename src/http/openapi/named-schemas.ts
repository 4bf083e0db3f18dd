import type { TSchema } from 'typebox'
import { ApiKeyCreatedOut, ApiKeyOut, AppPortalAccessOut, AuditOut, AuditVerifyOut } from '../answers/access.ts'
import { ApplicationOut } from '../answers/application.ts'
import { EndpointHeadersOut, EndpointOut, EndpointSecretOut, EndpointStats, RetryOut } from '../answers/endpoint.ts'
import {
  EventTypeFromOpenApi,
  EventTypeImportOpenApiOut,
  EventTypeImportOpenApiOutData,
  EventTypeOut,
} from '../answers/event-type.ts'
import { HealthOut } from '../answers/health.ts'
import { MessageAttemptOut, MessageEndpointOut, MessageOut } from '../answers/message.ts'
import { MessageIn } from '../operations/message.ts'
import { ApiKeyIn } from '../schemas/api-key.ts'
import { ApplicationIn, ApplicationPatch } from '../schemas/application.ts'
import { EndpointIn, EndpointPatch, EndpointPut } from '../schemas/endpoint.ts'
import { EndpointHeadersIn, EndpointHeadersPatch } from '../schemas/endpoint-headers.ts'
import { SecretRotateIn } from '../schemas/endpoint-secret.ts'
import { EventExampleIn, EventTypeImportIn, EventTypeIn, EventTypePatch, EventTypePut } from '../schemas/event-type.ts'
import { ApplicationTokenExpireIn, AppPortalAccessIn } from '../schemas/portal.ts'
import { RetryIn } from '../schemas/retry.ts'

/** The schemas that have a name in the reference: Svix's where it has the same thing. */
export const namedSchemas: Readonly<Record<string, TSchema>> = {
  ApiKeyCreatedOut,
  ApiKeyIn,
  ApiKeyOut,
  AppPortalAccessIn,
  AppPortalAccessOut,
  ApplicationIn,
  ApplicationOut,
  ApplicationPatch,
  ApplicationTokenExpireIn,
  AuditOut,
  AuditVerifyOut,
  EndpointHeadersIn,
  EndpointHeadersOut,
  EndpointHeadersPatchIn: EndpointHeadersPatch,
  EndpointIn,
  EndpointOut,
  EndpointPatch,
  EndpointSecretOut,
  EndpointSecretRotateIn: SecretRotateIn,
  EndpointStats,
  EndpointUpdate: EndpointPut,
  EventExampleIn,
  EventTypeFromOpenApi,
  EventTypeImportOpenApiIn: EventTypeImportIn,
  EventTypeImportOpenApiOut,
  EventTypeImportOpenApiOutData,
  EventTypeIn,
  EventTypeOut,
  EventTypePatch,
  EventTypeUpdate: EventTypePut,
  HealthOut,
  MessageAttemptOut,
  MessageEndpointOut,
  MessageIn,
  MessageOut,
  RetryIn,
  RetryOut,
}
