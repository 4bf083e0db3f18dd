/**
 * Sluice inside a program, from nothing to a delivered and verified webhook. Everything is kept in one file.
 *
 *     node examples/quickstart.ts [FILE]
 */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { openSluice } from 'sluice'
import { receiver } from './receiver.ts'

const file = process.argv[2] ?? './data/quickstart.db'

// The subscriber. In production this is another company's server.
let secret = ''
const arrived = Promise.withResolvers<unknown>()
const server = receiver(
  () => secret,
  (event) => arrived.resolve(event),
)
server.listen(0, '127.0.0.1')
await once(server, 'listening')
const { port } = server.address() as AddressInfo

// Private networks are out of reach for deliveries unless they are named.
const sluice = await openSluice({ store: `sqlite:${file}`, allowNetworks: ['127.0.0.0/8'] })
await sluice.applications.getOrCreate({ uid: 'acme', name: 'Acme' })
const endpoint = await sluice.endpoints.create('acme', { url: `http://127.0.0.1:${port}/`, eventTypes: ['video.*'] })
secret = await sluice.endpoints.secret('acme', endpoint.id)

// Resolves once the message is on disk. From here on it is delivered, whatever happens to this process.
const message = await sluice.publish('acme', { eventType: 'video.trending', payload: { video: 42, views: 1_000_000 } })
console.log(`published ${message.id}`)
console.log(`delivered and verified: ${JSON.stringify(await arrived.promise)}`)

await sluice.close()
server.close()
