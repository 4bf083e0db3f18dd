import { changeSecret, manage, view, viewSecret } from '../../operations/access.ts'
import type { Noun } from '../../operations/route.ts'
import {
  EndpointHeadersIn,
  EndpointHeadersOut,
  EndpointHeadersPatchIn,
  EndpointSecretOut,
  EndpointSecretRotateIn,
} from '../credentials/scope-service.ts'
import { EndpointIn, EndpointOut, EndpointPatch, EndpointPut } from './schemas.ts'
import { type EndpointScope, routesAt } from './scope-service.ts'

const inApplications: EndpointScope = {
  path: '/app/:app/endpoint',
  id: 'v1.endpoint',
  whose: 'an application',
  needs: { view, manage, viewSecret, changeSecret },
  subscribesToEventTypes: true,
}

export const endpoints = {
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
  },
  routes: routesAt(inApplications),
} satisfies Noun
