import assert from 'node:assert/strict'
import diagnostics from 'node:diagnostics_channel'
import { once } from 'node:events'
import { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { test } from 'node:test'
import { embed } from '../library/embedded.ts'
import { atEnd } from './at-end.ts'
import { openPlace } from './place.ts'
import { Receiver } from './receiver.ts'

const adminKey = 'sk_answered_first_0123456789'
const messages = 20

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: a publisher is answered before the request to the receiver is made`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    const sluice = await embed(t, place, { listen: '127.0.0.1:0', adminKey, allowHttp: true })
    await sluice.applications.create({ name: 'A', uid: 'a' })
    await sluice.endpoints.create('a', { url: `${receiver.url}/hook` })
    const { port } = new URL(sluice.url ?? '')
    const publisher = connect(Number(port), '127.0.0.1')
    atEnd(t, () => publisher.destroy())
    await once(publisher, 'connect')

    const order: string[] = []
    const note = () => order.push('request')
    diagnostics.subscribe('undici:request:create', note)
    const { end } = ServerResponse.prototype
    ServerResponse.prototype.end = function answering(this: ServerResponse, ...args: unknown[]) {
      order.push(`answer ${this.statusCode}`)
      return Reflect.apply(end, this, args)
    } as typeof end
    atEnd(t, () => {
      ServerResponse.prototype.end = end
      diagnostics.unsubscribe('undici:request:create', note)
    })
    const body = '{"eventType":"x.y","payload":{}}'
    const head = `POST /api/v1/app/a/msg HTTP/1.1\r\nhost: sluice\r\nauthorization: Bearer ${adminKey}\r\n`
    for (let n = 1; n <= messages; n++) {
      publisher.write(`${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
      await once(publisher, 'data')
      await receiver.until(`delivery ${n}`, () => receiver.arrivals.length >= n)
    }
    // The first finds a lane that nobody owns, which is claimed in a later turn.
    assert.deepEqual(order, Array(messages).fill(['answer 202', 'request']).flat())
  })
}
