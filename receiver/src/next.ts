import { type NodeHandler, nodeHandlerWith } from './node.ts'
import type { Receiver } from './receive.ts'

/** A route of the app router: `export const POST = nextRoute(receiver)` in `app/webhooks/route.ts`. */
export function nextRoute(receiver: Receiver): (request: Request) => Promise<Response> {
  return (request) => receiver.receive(request)
}

/**
 * A handler of the pages router: `export default nextApi(receiver)` in `pages/api/webhooks.ts`. The same file needs
 * `export const config = { api: { bodyParser: false } }`, because Next reads that text before it runs the file.
 */
export function nextApi(receiver: Receiver): NodeHandler {
  return nodeHandlerWith(
    receiver,
    'Add `export const config = { api: { bodyParser: false } }` to the file of the route.',
  )
}
