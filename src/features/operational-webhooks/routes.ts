import type { Noun } from '../../operations/route.ts'
import { type EndpointScope, forAdmins, routesAt } from '../endpoints/scope-service.ts'

const ofOperationalWebhooks: EndpointScope = {
  path: '/operational-webhook/endpoint',
  id: 'v1.operational-webhook.endpoint',
  whose: 'operational webhooks',
  needs: forAdmins,
  subscribesToEventTypes: false,
}

export const operationalWebhooks = {
  tag: 'Operational Webhook',
  description: 'Endpoints for events of the server itself.',
  routes: routesAt(ofOperationalWebhooks),
} satisfies Noun
