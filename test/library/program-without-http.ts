import { once } from 'node:events'
import { createServer } from 'node:http'
import { registerHooks } from 'node:module'
import type { AddressInfo } from 'node:net'

/**
 * A program that embeds the library: it publishes, manages, delivers and explains, and prints every module that was loaded.
 * Its arguments are the settings as JSON.
 */
const loaded = new Set<string>()
registerHooks({
  load(url, context, next) {
    loaded.add(url)
    return next(url, context)
  },
})

const { openSluice } = await import('../../src/index.ts')
const received = Promise.withResolvers<void>()
const receiver = createServer((_request, response) => {
  response.end()
  received.resolve()
}).listen(0, '127.0.0.1')
await once(receiver, 'listening')
const { port } = receiver.address() as AddressInfo

const sluice = await openSluice(JSON.parse(process.argv[2] ?? '{}'))
await sluice.applications.create({ uid: 'acme', name: 'Acme' })
await sluice.endpoints.create('acme', { uid: 'main', url: `http://127.0.0.1:${port}/` })
const { id } = await sluice.publish('acme', { eventType: 'video.trending', payload: { views: 1 } })
await received.promise
await sluice.explain('acme', 'main', id)
await sluice.lanes.get('acme', 'main')
await sluice.deadLetters.list('acme')
await sluice.schedules.list('acme')
await sluice.request('GET', '/event-type')
await sluice.close()
receiver.close()
receiver.closeAllConnections()
console.log(JSON.stringify([...loaded]))
