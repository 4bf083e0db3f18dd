import assert from 'node:assert/strict'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { apiKey } from '../e2e/program.ts'
import { isLong, Target } from './attack.ts'

const connections = isLong ? 500 : 40
const mib = 1024 * 1024

/** The server reads on after it refused a body, so that the client gets the answer. That must cost others nothing. */
test('bodies beyond the limit are answered, thrown away, and cut off when they do not end', async (t) => {
  const target = await Target.start(t, 'sqlite', { SLUICE_REQUEST_TIMEOUT: '4s' })
  const head = (bytes: number) =>
    `POST /api/v1/app HTTP/1.1\r\nhost: sluice\r\nauthorization: Bearer ${apiKey}\r\ncontent-length: ${bytes}\r\n\r\n`
  const part = Buffer.alloc(4 * mib, 'x')

  await target.measure(
    'refused bodies',
    async () => {
      await Promise.all(
        Array.from({ length: connections }, async (_, i) => {
          const socket = await target.connect()
          // Every second client never sends the rest.
          socket.write(head(i % 2 === 0 ? part.length : 60 * mib))
          socket.write(part)
          assert.match(await text(socket), /^HTTP\/1\.1 413 [\s\S]*payload_too_large[^{]*$/)
          if (!socket.destroyed) await once(socket, 'close')
        }),
      )
    },
    { grownMbAtMost: 128 },
  )
})
