import { ingestRoot } from '../../domain/api.ts'
import { admin, changeSecret, manage, type Need, view, viewSecret } from '../access.ts'
import type { Noun, Root } from '../route.ts'
import { allEndpoints, EndpointSummaryOut } from './all-endpoints.ts'
import { endpointRoutes } from './endpoint.ts'
import { EndpointAttemptStats, EndpointStats, EventExampleIn, endpointControlRoutes } from './endpoint-control.ts'
import {
  EndpointHeadersIn,
  EndpointHeadersOut,
  EndpointHeadersPatchIn,
  endpointHeaderRoutes,
} from './endpoint-headers.ts'
import { EndpointIn, EndpointOut, EndpointPatch, EndpointPut } from './endpoint-schema.ts'
import { EndpointSecretOut, EndpointSecretRotateIn, endpointSecretRoutes } from './endpoint-secret.ts'
import { EndpointSignatureOut, EndpointTrialIn, EndpointTrialOut, endpointTrialRoutes } from './endpoint-trial.ts'

/** Where endpoints live. Those of operational webhooks are endpoints like any other, of an application of the server. */
export interface Place {
  /** The path of the list. */
  readonly path: '/app/:app/endpoint' | '/operational-webhook/endpoint' | '/source/:source/endpoint'
  /** Missing for the API of Sluice. */
  readonly root?: Root
  /** The beginning of every operation's id. */
  readonly id: string
  readonly whose: string
  readonly needs: Readonly<Record<'view' | 'manage' | 'viewSecret' | 'changeSecret', Need>>
  /** Whether they may subscribe only to event types that exist; operational webhooks are none. */
  readonly subscribesToEventTypes: boolean
}

const inApplications: Place = {
  path: '/app/:app/endpoint',
  id: 'v1.endpoint',
  whose: 'an application',
  needs: { view, manage, viewSecret, changeSecret },
  subscribesToEventTypes: true,
}

const ofOperationalWebhooks: Place = {
  path: '/operational-webhook/endpoint',
  id: 'v1.operational-webhook.endpoint',
  whose: 'operational webhooks',
  needs: { view: admin, manage: admin, viewSecret: { ...admin, audited: 'all' }, changeSecret: admin },
  subscribesToEventTypes: false,
}

function routesAt(place: Place) {
  return [...endpointRoutes(place), ...endpointSecretRoutes(place), ...endpointHeaderRoutes(place)]
}

export const endpoints = {
  tag: 'Endpoint',
  description: "One subscriber's URL with its limits, secrets and filters.",
  schemas: {
    EndpointIn,
    EndpointOut,
    EndpointSummaryOut,
    EndpointPatch,
    EndpointUpdate: EndpointPut,
    EndpointSecretOut,
    EndpointSecretRotateIn,
    EndpointHeadersIn,
    EndpointHeadersOut,
    EndpointHeadersPatchIn,
    EndpointStats,
    EndpointAttemptStats,
    EventExampleIn,
    EndpointTrialIn,
    EndpointTrialOut,
    EndpointSignatureOut,
  },
  routes: [...routesAt(inApplications), ...endpointControlRoutes, ...endpointTrialRoutes, allEndpoints],
} satisfies Noun

/** Endpoints of the application of a source. Those that are made here get the messages of the source alone. */
const ofSources: Place = {
  path: '/source/:source/endpoint',
  root: ingestRoot,
  id: 'v1.ingest.endpoint',
  whose: 'the application of a source',
  needs: { view: admin, manage: admin, viewSecret: { ...admin, audited: 'all' }, changeSecret: admin },
  subscribesToEventTypes: false,
}

export const ingestEndpoints = routesAt(ofSources)

export const operationalWebhooks = {
  tag: 'Operational Webhook',
  description: 'Endpoints for events of the server itself.',
  routes: routesAt(ofOperationalWebhooks),
} satisfies Noun
