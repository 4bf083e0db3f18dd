import { type NodeHandler, nodeHandlerWith } from './node.ts'
import type { Receiver } from './receive.ts'

/** A handler for Express: `app.post('/webhooks', expressHandler(receiver))`, before `app.use(express.json())`. */
export function expressHandler(receiver: Receiver): NodeHandler {
  return nodeHandlerWith(
    receiver,
    "Mount the receiver before app.use(express.json()), or put express.raw({ type: '*/*' }) in front of it alone.",
  )
}
