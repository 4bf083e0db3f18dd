/**
 * The receiving end: a plain Node server that believes a webhook only when its signature is right. No dependencies; the
 * scheme is that of standardwebhooks.com.
 *
 *     WEBHOOK_SECRET=whsec_… PORT=9000 node examples/receiver.ts
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'

/** A captured request cannot be replayed later than this. */
const toleranceSeconds = 5 * 60

/** Whether the body was signed with the secret, recently. The body is the bytes as they came: parse it afterwards. */
export function isGenuine(secret: string, headers: IncomingHttpHeaders, body: Buffer): boolean {
  const id = String(headers['webhook-id'])
  const timestamp = String(headers['webhook-timestamp'])
  const ageSeconds = Math.abs(Date.now() / 1000 - Number(timestamp))
  if (!(ageSeconds <= toleranceSeconds)) return false
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest()
  // While a secret is being rotated there are several signatures; one that fits is enough.
  return String(headers['webhook-signature'])
    .split(' ')
    .filter((signature) => signature.startsWith('v1,'))
    .map((signature) => Buffer.from(signature.slice('v1,'.length), 'base64'))
    .some((signature) => signature.length === expected.length && timingSafeEqual(signature, expected))
}

/** A server that hands genuine webhooks to `receive` and refuses all others. Anything but a 2xx is delivered again. */
export function receiver(secretOf: () => string, receive: (event: unknown, id: string) => void): Server {
  return createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      if (!isGenuine(secretOf(), request.headers, body)) {
        response.writeHead(401).end()
        return
      }
      // The same webhook-id may come twice: remember the ids that were handled.
      receive(JSON.parse(body.toString()), String(request.headers['webhook-id']))
      response.writeHead(204).end()
    })
  })
}

if (import.meta.main) {
  const secret = process.env.WEBHOOK_SECRET
  if (secret === undefined) throw new Error('Set WEBHOOK_SECRET to what the endpoint is signed with.')
  const server = receiver(
    () => secret,
    (event, id) => console.log(`verified ${id}: ${JSON.stringify(event)}`),
  )
  server.listen(Number(process.env.PORT ?? 9000), '127.0.0.1', () => console.log('receiving on', server.address()))
}
