import { createHmac, randomUUID } from 'node:crypto'
import type { Sent } from './edge.ts'

export const hubSecret = 'secret of the hub'

/** A webhook as GitHub sends it. */
export function push(
  body: string,
  delivery: string = randomUUID(),
  event = 'push',
): Sent & { headers: Record<string, string> } {
  const signature = createHmac('sha256', hubSecret).update(body).digest('hex')
  return {
    body,
    headers: {
      'content-type': 'application/json',
      'x-github-event': event,
      'x-github-delivery': delivery,
      'x-hub-signature-256': `sha256=${signature}`,
    },
  }
}
