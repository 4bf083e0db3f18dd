import type { Receiver } from './receive.ts'

/** A handler for Hono: `app.post('/webhooks', honoHandler(receiver))`. No middleware before it may read the body. */
export function honoHandler(
  receiver: Receiver,
): (context: { readonly req: { readonly raw: Request } }) => Promise<Response> {
  return ({ req }) => receiver.receive(req.raw)
}
