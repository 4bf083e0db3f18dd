import type { Noun } from '../../operations/route.ts'
import { forAdmins, type Place, routesAt } from '../endpoints/place-service.ts'

const ofOperationalWebhooks: Place = {
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
