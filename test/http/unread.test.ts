import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { configOf } from '../../src/runtime/config.ts'
import { eventually } from '../e2e/eventually.ts'
import { adminKey, openApi } from './api.ts'

test('a client that stops reading its answer is cut off', async (t) => {
  const limits = { ...configOf({}), writeTimeout: 200 }
  const api = await openApi({ limits, bodyLimitBytes: 4 * 2 ** 20 })
  t.after(async () => {
    await api.app.close()
    await api.store.close()
  })
  await api.ask('POST', '/app', { name: 'A', uid: 'a' })
  const payload = { text: 'x'.repeat(3 * 2 ** 20) }
  const { id } = (await api.ask('POST', '/app/a/msg?with_content=false', { eventType: 'x.y', payload })).json
  await api.app.listen({ host: '127.0.0.1', port: 0 })
  const { server } = api.app
  const connections = promisify(server.getConnections.bind(server))

  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  t.after(() => socket.destroy())
  await once(socket, 'connect')
  socket.pause()
  // More than the buffers of the kernel take.
  const request = `GET /api/v1/app/a/msg/${id} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${adminKey}\r\n\r\n`
  socket.write(request.repeat(8))
  await eventually('the connection is open', async () => (await connections()) === 1)
  await eventually('the connection is closed', async () => (await connections()) === 0)
  assert.deepEqual(api.bugs, [])
})
