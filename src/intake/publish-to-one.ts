import { AppError } from '../domain/app-error.ts'
import type { Endpoint } from '../domain/endpoint.ts'
import type { Store } from '../store/store.ts'
import type { Accepted } from './publisher.ts'

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
    if (!subscriptions?.list.some((subscription) => subscription.endpoint === endpoint.key)) {
      throw new AppError('not_found', 'There is no such endpoint.')
    }
    const [published] = await store.publish([
      {
        app: endpoint.app,
        version: subscriptions.version,
        eventType,
        eventId: null,
        channels: null,
        body,
        contentType: 'application/json',
        endpoints: [endpoint.key],
        delayMs: 0,
      },
    ])
    if (published?.state === 'accepted') return published
  }
  throw new AppError('unavailable', "The application's endpoints keep changing.")
}
