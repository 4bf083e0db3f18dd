import { test } from 'node:test'
import { dialects, isLong, Target } from './attack.ts'

/** Connections that a stranger opens, each with one request that it does not wait for. */
const connections = isLong ? 2000 : 200

const hangUps = {
  reset: (socket: import('node:net').Socket) => socket.resetAndDestroy(),
  close: (socket: import('node:net').Socket) => socket.end(),
}

for (const dialect of dialects) {
  for (const [how, hangUp] of Object.entries(hangUps)) {
    test(`${dialect}: strangers with a wrong key who ${how} at once do not end the process`, async (t) => {
      const target = await Target.share(t, dialect)
      await target.measure(`wrong key, ${how}`, async () => {
        for (let i = 0; i < connections; i++) {
          const socket = await target.connect()
          socket.write(`GET /api/v1/app HTTP/1.1\r\nhost: sluice\r\nauthorization: Bearer ${i}\r\n\r\n`, () => {
            hangUp(socket)
          })
        }
        // The server has met them all once it answers a later client.
        await target.call('GET', '/health/ping')
      })
    })
  }
}
