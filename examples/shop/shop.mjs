// A shop without webhooks: AGENTS.md adds them. Start it with: node shop.mjs
import { once } from 'node:events'
import { createServer } from 'node:http'

const customers = new Map()
const orders = []

async function createCustomer({ id, name }) {
  customers.set(id, { id, name })
  return { id, name }
}

async function placeOrder({ customer, total }) {
  if (!customers.has(customer)) return undefined
  const order = { id: `order-${orders.length + 1}`, customer, total }
  orders.push(order)
  return order
}

const server = createServer(async (request, response) => {
  const answer = (status, body) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }
  try {
    const [, noun, id] = request.url.split('/')
    const body = request.method === 'POST' ? JSON.parse(Buffer.concat(await request.toArray())) : undefined
    if (request.method === 'POST' && noun === 'customers') return answer(201, await createCustomer(body))
    if (request.method === 'POST' && noun === 'orders') return answer(201, await placeOrder(body))
    answer(404, { error: `nothing at ${request.method} /${noun}/${id ?? ''}` })
  } catch (error) {
    answer(500, { error: error.message })
  }
})
server.listen(Number(process.env.PORT ?? 3000), '127.0.0.1')
await once(server, 'listening')
console.log(`The shop listens on http://127.0.0.1:${server.address().port}`)
