import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { Target } from './attack.ts'

const hangUps = 20

/** Before, the log said `POST /in/src_… a client hung up`: whoever read the log could send to the source. */
test('no log line has the secret URL of a source, also when a sender hangs up', async (t) => {
  const target = await Target.start(t, 'sqlite', { SLUICE_LOG_LEVEL: 'debug' })
  const app = await target.newApplication()
  const made = await target.call('POST', `/app/${app}/source`, { body: { provider: 'token' } })
  const { pathname } = new URL((JSON.parse(made.text) as { url: string }).url)
  const secret = pathname.split('/').at(-1) ?? ''
  assert.ok(secret.length > 20, made.text)
  for (const path of [pathname, `/${pathname}`, `${pathname}/`, `${pathname}?a=b`, pathname.replace('in', 'i%6e')]) {
    for (let i = 0; i < hangUps; i++) {
      const socket = await target.connect()
      const head = `POST ${path} HTTP/1.1\r\nhost: sluice\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n`
      socket.write(`${head}{"a":`)
      // The server has the head, and waits for the rest of the body, once it has answered a later request of another client.
      await target.call('GET', '/health/ping')
      socket.destroy()
    }
  }
  await eventually('the log says so', () => target.program.logged.includes('a client hung up'))
  assert.ok(!target.program.logged.includes(secret), 'the log has the secret')
})
