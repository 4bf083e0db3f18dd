import type { Noun, Route } from '../route.ts'
import { endpointRoutes } from './endpoint.ts'
import { EndpointStats, EventExampleIn, endpointControlRoutes } from './endpoint-control.ts'
import {
  EndpointHeadersIn,
  EndpointHeadersOut,
  EndpointHeadersPatchIn,
  endpointHeaderRoutes,
} from './endpoint-headers.ts'
import { inApplications, ofOperationalWebhooks, type Place } from './endpoint-place.ts'
import { EndpointIn, EndpointOut, EndpointPatch, EndpointPut } from './endpoint-schema.ts'
import { EndpointSecretOut, EndpointSecretRotateIn, endpointSecretRoutes } from './endpoint-secret.ts'

function routesAt(place: Place): Route[] {
  return [...endpointRoutes(place), ...endpointSecretRoutes(place), ...endpointHeaderRoutes(place)]
}

export const endpoints: Noun = {
  tag: 'Endpoint',
  description: "One subscriber's URL with its limits, secrets and filters.",
  schemas: {
    EndpointIn,
    EndpointOut,
    EndpointPatch,
    EndpointUpdate: EndpointPut,
    EndpointSecretOut,
    EndpointSecretRotateIn,
    EndpointHeadersIn,
    EndpointHeadersOut,
    EndpointHeadersPatchIn,
    EndpointStats,
    EventExampleIn,
  },
  routes: [...routesAt(inApplications), ...endpointControlRoutes],
}

export const operationalWebhooks: Noun = {
  tag: 'Operational Webhook',
  description: 'Endpoints for events of the server itself.',
  routes: routesAt(ofOperationalWebhooks),
}
