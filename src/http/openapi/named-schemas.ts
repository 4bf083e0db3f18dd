import type { TSchema } from 'typebox'
import { ApplicationOut } from '../answers/application.ts'
import { EndpointOut, EndpointSecretOut, RetryOut } from '../answers/endpoint.ts'
import { HealthOut } from '../answers/health.ts'
import { MessageAttemptOut, MessageEndpointOut, MessageOut } from '../answers/message.ts'
import { MessageIn } from '../operations/message.ts'
import { ApplicationIn } from '../schemas/application.ts'
import { EndpointIn, EndpointPatch } from '../schemas/endpoint.ts'
import { RetryIn } from '../schemas/retry.ts'

/** The schemas that have a name in the reference: Svix's where it has the same thing. */
export const namedSchemas: Readonly<Record<string, TSchema>> = {
  ApplicationIn,
  ApplicationOut,
  EndpointIn,
  EndpointOut,
  EndpointPatch,
  EndpointSecretOut,
  HealthOut,
  MessageAttemptOut,
  MessageEndpointOut,
  MessageIn,
  MessageOut,
  RetryIn,
  RetryOut,
}
