/**
 * The receiving end: a plain Node server that verifies each webhook and handles each message once, with the package
 * `@sluice/receiver`.
 *
 *     WEBHOOK_SECRET=whsec_… PORT=9000 node examples/receiver.ts
 */
import { createServer, type Server } from 'node:http'
import { memoryStore, openReceiver } from '@sluice/receiver'
import { type NodeHandler, nodeHandler } from '@sluice/receiver/node'

/** A server that hands genuine webhooks to `receive`. The secret is read when the first one comes. */
export function receiver(secretOf: () => string, receive: (event: unknown, id: string) => void): Server {
  let handler: NodeHandler | undefined
  return createServer((request, response) => {
    handler ??= nodeHandler(
      openReceiver({
        secret: secretOf(),
        // In production: sqliteStore, postgresStore or redisStore, which outlive the process.
        store: memoryStore(),
        handle: (webhook) => receive(webhook.json(), webhook.id),
      }),
    )
    void handler(request, response)
  })
}

if (import.meta.main) {
  const secret = process.env.WEBHOOK_SECRET
  if (secret === undefined) throw new Error('Set WEBHOOK_SECRET to the secret of the endpoint.')
  const server = receiver(
    () => secret,
    (event, id) => console.log(`verified ${id}: ${JSON.stringify(event)}`),
  )
  server.listen(Number(process.env.PORT ?? 9000), '127.0.0.1', () => console.log('receiving on', server.address()))
}
