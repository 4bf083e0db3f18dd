import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { metricsServer } from '../../src/http/metrics.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { eventually } from '../e2e/eventually.ts'

const scrape = 'GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n'

/** A listener for metrics whose scrapes are answered when `answer` is called. */
async function listening(t: TestContext) {
  const waiting: (() => void)[] = []
  const write = () =>
    new Promise<{ type: string; text: string }>((resolve) =>
      waiting.push(() => resolve({ type: 'text/plain', text: 'up 1\n' })),
    )
  const server = metricsServer({ write }, systemClock, (error) => assert.fail(String(error)))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  t.after(() => socket.destroy())
  return { socket, waiting, answer: () => waiting.splice(0).map((each) => each()).length }
}

test('scrapes that do not wait for answers begin 16 at a time, and all are answered', async (t) => {
  const { socket, waiting, answer } = await listening(t)
  let said = ''
  socket.on('data', (bytes) => {
    said += bytes
  })
  socket.write(scrape.repeat(100))
  await eventually('16 scrapes', () => waiting.length >= 16)
  let most = 0
  await eventually('100 answers', () => {
    most = Math.max(most, waiting.length)
    answer()
    return said.split('up 1\n').length === 101
  })
  assert.ok(most <= 16, `${most} scrapes under way`)
})
