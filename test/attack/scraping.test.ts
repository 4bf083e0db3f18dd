import assert from 'node:assert/strict'
import { test } from 'node:test'
import { request } from 'undici'
import { dialects, isLong, Target } from './attack.ts'

const rounds = isLong ? 2000 : 25
const atOnce = 20

for (const dialect of dialects) {
  test(`${dialect}: a tenant that asks for metrics in a loop gets none, and holds no other client up`, async (t) => {
    const target = await Target.share(t, dialect)
    const { id } = JSON.parse((await target.call('POST', '/app', { body: { name: 'tenant' } })).text)
    const portal = await target.call('POST', `/auth/app-portal-access/${id}`, { body: {} })
    const { token } = JSON.parse(portal.text)
    const url = new URL('/metrics', target.program.api)
    const scrape = async (key: string) => {
      const { statusCode, body } = await request(url, { headers: { authorization: `Bearer ${key}` } })
      return { status: statusCode, text: await body.text() }
    }
    await target.measure('scraping with a portal token', async () => {
      for (let i = 0; i < rounds; i++) {
        const answers = await Promise.all(Array.from({ length: atOnce }, () => scrape(token)))
        for (const { status, text } of answers) {
          assert.ok(status === 403 || status === 429, `${status}`)
          assert.doesNotMatch(text, /sluice_messages/)
        }
      }
    })
  })

  test(`${dialect}: metrics without a key that are asked for in a loop, also with a long Accept header, hold no other client up`, async (t) => {
    const target = await Target.start(t, dialect, { SLUICE_METRICS_PUBLIC: 'true' })
    const url = new URL('/metrics', target.program.api)
    await target.measure('scraping without a key', async () => {
      for (let i = 0; i < rounds; i++) {
        const accept = ['*/*', 'application/openmetrics-text', `${'a/b;q=0.1,'.repeat(1000)}*/*`][i % 3] as string
        const one = () => request(url, { headers: { accept } }).then(({ body }) => body.text())
        const texts = await Promise.all(Array.from({ length: atOnce }, one))
        for (const text of texts) assert.match(text, /sluice_messages_accepted/)
      }
    })
  })
}
