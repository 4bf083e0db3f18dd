import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { apiKey } from '../e2e/program.ts'
import { dialects, isLong, Target } from './attack.ts'

const megabyte = 2 ** 20
const uploads = isLong ? 500 : 60
const changes = isLong ? 2000 : 300

const settings = { SLUICE_MAX_UPLOAD_PER_CLIENT: '16MiB', SLUICE_MAX_ENDPOINTS_PER_APP: '20' }

for (const dialect of dialects) {
  test(`${dialect}: uploads that stall are bounded in bytes and cut off`, async (t) => {
    const target = await Target.share(t, dialect, settings)
    const app = await target.newApplication()
    const head =
      `POST /api/v1/app/${app}/msg HTTP/1.1\r\nhost: sluice\r\nauthorization: Bearer ${apiKey}\r\n` +
      `content-type: application/json\r\ncontent-length: ${megabyte}\r\n\r\n`
    const part = Buffer.alloc(megabyte - 1, 'x')
    await target.measure(
      `${uploads} stalled uploads of 1 MB`,
      async () => {
        const statuses: string[] = []
        for (let i = 0; i < uploads; i++) {
          const socket = await target.connect()
          socket.once('data', (chunk) => statuses.push(chunk.toString('latin1', 9, 12)))
          socket.write(head)
          socket.write(part)
        }
        await eventually('all are answered', () => statuses.length === uploads, 60_000)
        assert.deepEqual([...new Set(statuses)].sort(), ['408', '429'])
        assert.ok(statuses.filter((status) => status === '408').length <= 16)
      },
      { grownMbAtMost: 128 },
    )
  })

  test(`${dialect}: a portal token fills neither the audit log nor the list of endpoints`, async (t) => {
    const target = await Target.share(t, dialect, settings)
    const app = await target.newApplication()
    const { text } = await target.call('POST', `/auth/app-portal-access/${app}`, { body: {} })
    const headers = { authorization: `Bearer ${JSON.parse(text).token}` }
    const body = { url: 'http://127.0.0.1:9/', description: 'x'.repeat(4096) }
    await target.measure(`${changes} endpoints made by a portal token`, async () => {
      const statuses = new Map<number, number>()
      for (let i = 0; i < changes; i++) {
        const { status } = await target.call('POST', `/app/${app}/endpoint`, { body, headers })
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
      }
      assert.equal(statuses.get(201), 20)
      assert.deepEqual([...statuses.keys()].sort(), [201, 409, 429])
    })
    let rows = 0
    for (let iterator = '', done = false; !done; ) {
      const page = JSON.parse((await target.call('GET', `/audit?limit=250${iterator}`)).text)
      rows += page.data.length
      iterator = `&iterator=${page.iterator}`
      done = page.done
    }
    assert.ok(rows <= 30, `${rows} rows`)
  })
}
