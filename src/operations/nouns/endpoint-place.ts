import { admin, changeSecret, manage, type Need, view, viewSecret } from '../access.ts'

/** Where endpoints live. Those of operational webhooks are endpoints like any other, of an application of the server. */
export interface Place {
  /** The path of the list. */
  readonly path: '/app/:app/endpoint' | '/operational-webhook/endpoint'
  /** The beginning of every operation's id. */
  readonly id: string
  readonly whose: string
  readonly needs: Readonly<Record<'view' | 'manage' | 'viewSecret' | 'changeSecret', Need>>
  /** Whether they may subscribe only to event types that exist; operational webhooks are none. */
  readonly subscribesToEventTypes: boolean
}

export const inApplications: Place = {
  path: '/app/:app/endpoint',
  id: 'v1.endpoint',
  whose: 'an application',
  needs: { view, manage, viewSecret, changeSecret },
  subscribesToEventTypes: true,
}

export const ofOperationalWebhooks: Place = {
  path: '/operational-webhook/endpoint',
  id: 'v1.operational-webhook.endpoint',
  whose: 'operational webhooks',
  needs: { view: admin, manage: admin, viewSecret: { ...admin, audited: 'all' }, changeSecret: admin },
  subscribesToEventTypes: false,
}
