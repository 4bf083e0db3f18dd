import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, test } from 'node:test'
import { atEnd } from '../e2e/at-end.ts'
import { eventually } from '../e2e/eventually.ts'
import { served, workplace } from './program.ts'

describe('sluice send', () => {
  const where = workplace()

  test('sends headers with the message, and publishes a dedupe key once', async (t) => {
    const arrived: IncomingHttpHeaders[] = []
    const receiver = createServer((request, response) => {
      arrived.push(request.headers)
      request.resume().on('end', () => response.end())
    })
    atEnd(t, () => {
      receiver.close()
      receiver.closeAllConnections()
    })
    receiver.listen(0, '127.0.0.1')
    await once(receiver, 'listening')
    const { json, sluice, url, env } = await served(where)
    await sluice('app create Shop --uid shop')
    const window = await fetch(`${url}/api/v1/app/shop`, {
      method: 'PATCH',
      headers: { authorization: `Bearer ${env.SLUICE_API_KEY}`, 'content-type': 'application/json' },
      body: '{"dedupeSeconds":3600}',
    })
    assert.equal(window.status, 200)
    await sluice(`endpoint create shop http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`)
    const send = 'send shop cart.changed {} --header x-shop=7 --header x-cart=5 --dedupe-key cart-5'
    const first = await json(send)
    assert.equal((await json(send)).id, first.id)
    const headers = await eventually('the message', () => arrived[0])
    assert.deepEqual([headers['x-shop'], headers['x-cart']], ['7', '5'])
    await sluice('send shop a.b x --raw --content-type text/x-cart --header x-shop=8')
    const raw = await eventually('the raw message', () => arrived[1])
    assert.deepEqual([raw['x-shop'], raw['content-type']], ['8', 'text/x-cart'])
  })
})
