import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { dialects, isLong, Target } from './attack.ts'

const secret = "It's a Secret to Everybody"
const rounds = isLong ? 20 : 3
const atOnce = 40

const sign = (body: Uint8Array, key = secret) => `sha256=${createHmac('sha256', key).update(body).digest('hex')}`

/** A server with a source of GitHub, and ways to send to it. */
async function begin(t: Parameters<typeof Target.start>[0], dialect: (typeof dialects)[number]) {
  const target = await Target.start(t, dialect)
  const made = async (path: string, body: object) => {
    const { status, text } = await target.call('POST', path, { body })
    assert.ok(status < 300, text)
    return JSON.parse(text)
  }
  const { id: app } = await made('/app', { name: 'Shop' })
  const { id, url } = await made(`/app/${app}/source`, { provider: 'github', secret })
  const at = `${new URL(target.program.api).origin}${new URL(url).pathname}`
  let n = 0
  const send = async (body: Uint8Array, key = secret, to = at) => {
    const headers = {
      'content-type': 'application/json',
      'x-github-event': 'push',
      'x-github-delivery': `d${++n}`,
      'x-hub-signature-256': sign(body, key),
    }
    const response = await fetch(to, { method: 'POST', headers, body: new Uint8Array(body) })
    await response.arrayBuffer()
    return { status: response.status, retryAfter: response.headers.get('retry-after') }
  }
  const source = async () => JSON.parse((await target.call('GET', `/app/${app}/source/${id}`)).text)
  const samples = async () => JSON.parse((await target.call('GET', `/app/${app}/source/${id}/sample`)).text).data
  return {
    target,
    made,
    app,
    send,
    source,
    samples,
    origin: new URL(target.program.api).origin,
    path: new URL(url).pathname,
  }
}

for (const dialect of dialects) {
  test(`${dialect}: a flood of forged webhooks with large bodies ends unread, and bounded in the store`, async (t) => {
    const { target, send, source, samples } = await begin(t, dialect)
    const large = randomBytes(1_000_000)
    const small = Buffer.from('{}')
    assert.equal((await send(small)).status, 202)
    const statuses: number[] = []
    await target.measure('forged webhooks', async () => {
      for (let round = 0; round < rounds; round++) {
        const sent = Array.from({ length: atOnce }, () => send(large, 'a wrong secret'))
        const answers = await Promise.allSettled(sent)
        for (const answer of answers) if (answer.status === 'fulfilled') statuses.push(answer.value.status)
      }
    })
    assert.deepEqual(
      [...new Set(statuses)].filter((status) => status !== 401 && status !== 429),
      [],
    )
    assert.ok(statuses.includes(429), 'the flood is refused before its bodies are read')
    await eventually('the arrivals are counted', async () => {
      const { arrivals } = await source()
      return arrivals.accepted === 1 && arrivals.refused >= statuses.length
    })
    const kept = await samples()
    assert.ok(kept.length > 0 && kept.length <= 20)
  })

  test(`${dialect}: garbage at the URLs of sources costs others nothing`, async (t) => {
    const { target, origin, path } = await begin(t, dialect)
    await target.measure('garbage', async () => {
      for (let round = 0; round < rounds; round++) {
        const names = Array.from({ length: atOnce }, () => `in_${randomBytes(20).toString('hex').slice(0, 27)}`)
        const answers = await Promise.all(
          names.map(async (name) => {
            const response = await fetch(`${origin}/in/${name}`, { method: 'POST', body: 'x'.repeat(20_000) })
            await response.arrayBuffer()
            return response.status
          }),
        )
        assert.deepEqual(
          answers.filter((status) => status !== 404 && status !== 429),
          [],
        )
      }
      // Bodies that announce much and never come.
      const head = `POST ${path} HTTP/1.1\r\nhost: sluice\r\ncontent-type: application/json\r\ncontent-length: 900000\r\n\r\n`
      for (let i = 0; i < atOnce; i++) (await target.connect()).write(`${head}{`)
      await target.call('GET', '/health/ping')
    })
  })
}

test('a genuine sender gets through while others flood the source from the same process', async (t) => {
  const { target, made, app, origin } = await begin(t, 'sqlite')
  const { url } = await made(`/app/${app}/source`, { provider: 'github', secret })
  const { pathname } = new URL(url)
  // Each address counts by itself behind a trusted proxy; here all are one, so the flood is at another source.
  const flooded = await made(`/app/${app}/source`, { provider: 'github', secret })
  const body = Buffer.from('{"a":1}')
  const send = async (path: string, key: string, delivery: string) => {
    const headers = { 'x-hub-signature-256': sign(body, key), 'x-github-delivery': delivery, 'x-github-event': 'push' }
    const response = await fetch(origin + path, { method: 'POST', headers, body })
    await response.arrayBuffer()
    return response.status
  }
  await target.measure('another source is flooded', async () => {
    const flood = Array.from({ length: 200 }, (_, i) => send(new URL(flooded.url).pathname, 'wrong', `f${i}`))
    const genuine = []
    for (let i = 0; i < 20; i++) genuine.push(await send(pathname, secret, `g${i}`))
    assert.deepEqual(new Set(genuine), new Set([202]))
    assert.ok((await Promise.all(flood)).includes(429))
  })
})
