/**
 * A SaaS with one tenant, inside a program: the receiver fails, Sluice says why, and a replay repairs it.
 *
 *     node examples/tenants.ts [FILE]
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { openSluice } from 'sluice'

// The customer's receiver: broken at first.
let isBroken = true
const receiver = createServer((request, response) => {
  request.resume().on('end', () => response.writeHead(isBroken ? 500 : 204).end())
})
receiver.listen(0, '127.0.0.1')
await once(receiver, 'listening')
const { port } = receiver.address() as AddressInfo

// A tenant is an application. One failed attempt is enough here: `retry` has no waits.
const sluice = await openSluice({
  store: `sqlite:${process.argv[2] ?? './data/tenants.db'}`,
  allowNetworks: ['127.0.0.0/8'],
})
await sluice.applications.getOrCreate({ uid: 'acme', name: 'Acme Inc.' })
const crm = await sluice.endpoints.create('acme', {
  url: `http://127.0.0.1:${port}/`,
  eventTypes: ['invoice.*'],
  retry: { waits: { kind: 'list', ms: [] } },
})
const message = await sluice.publish('acme', { eventType: 'invoice.paid', payload: { invoice: 18 } })

// The delivery fails and becomes a dead letter.
const dead = await when('dead')
console.log(`${dead.reason}: ${dead.detail}`)

// Repair the receiver and send all dead letters of the endpoint again.
isBroken = false
await sluice.deadLetters.replay('acme', { endpointId: crm.id })
console.log((await when('delivered')).reason)

await sluice.close()
receiver.close()

/** Waits until the delivery has this status. */
async function when(reason: 'dead' | 'delivered') {
  for (;;) {
    const why = await sluice.explain('acme', crm.id, message.id)
    if (why.reason === reason) return why
    await sleep(50)
  }
}
