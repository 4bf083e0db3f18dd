import { changeSecret, manage, view, viewSecret } from '../../operations/access.ts'
import type { Noun } from '../../operations/route.ts'
import {
  EndpointHeadersIn,
  EndpointHeadersOut,
  EndpointHeadersPatchIn,
  EndpointSecretOut,
  EndpointSecretRotateIn,
} from '../credentials/place-service.ts'
import { type Place, routesAt } from './place-service.ts'
import { EndpointIn, EndpointOut, EndpointPatch, EndpointPut } from './schemas.ts'

const inApplications: Place = {
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
