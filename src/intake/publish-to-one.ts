import { AppError } from '../domain/app-error.ts'
import type { Endpoint } from '../domain/endpoint.ts'
import type { Subscription } from '../domain/match.ts'
import type { Store } from '../store/store.ts'
import type { Accepted } from './publisher.ts'
import { keepChanging } from './refusals.ts'
import { prepareTreatments, treat } from './treat.ts'

/** How often to try anew because the application's endpoints changed meanwhile. */
const staleLimit = 8

/**
 * Stores a message for one endpoint alone, whatever it subscribes to; for trying an endpoint out. Rejects with AppError
 * `not_found` when the application is gone.
 */
export async function publishToOne(
  store: Pick<Store, 'subscriptions' | 'publish'>,
  endpoint: Pick<Endpoint, 'app' | 'key'>,
  eventType: string,
  body: Uint8Array,
): Promise<Accepted> {
  for (let tries = 0; tries < staleLimit; tries++) {
    const subscriptions = await store.subscriptions(endpoint.app)
    const subscription = subscriptions?.list.find((each) => each.endpoint === endpoint.key)
    if (subscriptions === undefined || subscription === undefined) {
      throw new AppError('not_found', 'There is no such endpoint.')
    }
    const envelope = { eventType, eventId: null, channels: null, contentType: 'application/json', delayMs: 0 }
    const treatments = prepareTreatments([unfiltered(subscription)])
    const [published] = await store.publish([
      {
        app: endpoint.app,
        version: subscriptions.version,
        ...envelope,
        body,
        endpoints: [endpoint.key],
        ...(treatments && treat(treatments, envelope, body, [endpoint.key])),
      },
    ])
    if (published?.state === 'accepted') return published
  }
  throw keepChanging()
}

/** As it is, but for what it does not want. */
function unfiltered(subscription: Subscription): Subscription {
  const { treatment } = subscription
  if (treatment === undefined) return subscription
  return { ...subscription, treatment: { ...treatment, flow: { ...treatment.flow, filter: null, coalesce: null } } }
}
