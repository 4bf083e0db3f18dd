import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { request } from 'undici'
import { makeSourceToken } from '../../src/features/sources/rules.ts'
import { eventually } from '../e2e/eventually.ts'
import { dialects, isLong, Target } from './attack.ts'

const secret = "It's a Secret to Everybody"
const rounds = isLong ? 20 : 2
const atOnce = 40
const manySources = isLong ? 5000 : 100
const manyTokens = isLong ? 20_000 : 300

const randomText = (length: number) => randomBytes(length).toString('hex').slice(0, length)

/** Does a thing so many times, `atOnce` at a time: a starved server answers all of them in one turn of its loop. */
async function inTurns(times: number, act: (i: number) => Promise<void>): Promise<void> {
  let next = 0
  const one = async () => {
    while (next < times) await act(next++)
  }
  await Promise.all(Array.from({ length: atOnce }, one))
}

const sign = (body: Uint8Array, key = secret) => `sha256=${createHmac('sha256', key).update(body).digest('hex')}`

/** A server with a source of GitHub, and ways to send to it. */
async function begin(t: Parameters<typeof Target.start>[0], dialect: (typeof dialects)[number]) {
  // Behind a proxy, so that requests may come from several addresses.
  const target = await Target.share(t, dialect, { SLUICE_TRUSTED_PROXIES: '127.0.0.1' })
  const made = async (path: string, body: object) => {
    const { status, text } = await target.call('POST', path, { body })
    assert.ok(status < 300, text)
    return JSON.parse(text)
  }
  const { id: app } = await made('/app', { name: 'Shop' })
  const { id, url } = await made(`/app/${app}/source`, { provider: 'github', secret })
  const at = `${new URL(target.program.api).origin}${new URL(url).pathname}`
  let n = 0
  const send = async (body: Buffer, key = secret, to = at, from?: string) => {
    const headers = {
      ...(from !== undefined && { 'x-forwarded-for': from }),
      'content-type': 'application/json',
      'x-github-event': 'push',
      'x-github-delivery': `d${++n}`,
      'x-hub-signature-256': sign(body, key),
    }
    const response = await request(to, { method: 'POST', headers, body })
    await response.body.dump()
    return response.statusCode
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
    // From another address than the flood, which is not trusted.
    assert.equal(await send(small, secret, undefined, '192.0.2.1'), 202)
    const statuses: number[] = []
    await target.measure('forged webhooks', async () => {
      for (let round = 0; round < rounds; round++) {
        const sent = Array.from({ length: atOnce }, () => send(large, 'a wrong secret'))
        const answers = await Promise.allSettled(sent)
        for (const answer of answers) if (answer.status === 'fulfilled') statuses.push(answer.value)
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

  test(`${dialect}: many made-up tokens, and forged webhooks at many sources, cost others nothing`, async (t) => {
    const { target, made, send, origin, path } = await begin(t, dialect)
    const paths: string[] = []
    const [apps, sourcesOfApp] = [Math.ceil(manySources / 100), 100]
    await inTurns(apps, async (i) => void (await made('/app', { name: `App ${i}`, uid: `app-${i}` })))
    await inTurns(apps * sourcesOfApp, async (i) => {
      const { url } = await made(`/app/app-${i % apps}/source`, { provider: 'github', secret })
      paths.push(new URL(url).pathname)
    })
    const statuses = new Map<number, number>()
    await target.measure('made-up tokens', async () => {
      const post = async (at: string, body: string) => {
        const headers = { 'x-hub-signature-256': sign(Buffer.from('another')), 'x-github-event': 'push' }
        const { statusCode, body: answer } = await request(origin + at, { method: 'POST', headers, body })
        await answer.dump()
        statuses.set(statusCode, (statuses.get(statusCode) ?? 0) + 1)
      }
      let isOver = false
      const genuine = (async () => {
        const answers = new Set<number>()
        while (!isOver) answers.add(await send(Buffer.from('{}')))
        return answers
      })()
      await Promise.all([
        // Each names another source that does not exist, so none is known from before.
        inTurns(manyTokens, (i) => post(`/in/${makeSourceToken(1_000_000_007 * (i + 1), randomText)}`, '{}')),
        inTurns(manyTokens, (i) => post(paths[i % paths.length] ?? '', 'x'.repeat(1000))),
      ])
      isOver = true
      assert.deepEqual(await genuine, new Set([202]))
    })
    const [unknown, forged, limited] = [404, 401, 429].map((status) => statuses.get(status) ?? 0)
    assert.equal((unknown ?? 0) + (forged ?? 0) + (limited ?? 0), 2 * manyTokens, JSON.stringify([...statuses]))
    assert.ok((unknown ?? 0) < manyTokens && (forged ?? 0) > 0, 'made-up tokens of one address are limited')
    await target.measure('garbage', async () => {
      for (let round = 0; round < rounds; round++) {
        const names = Array.from({ length: atOnce }, () => `in_${randomBytes(20).toString('hex').slice(0, 27)}`)
        const answers = await Promise.all(
          names.map(async (name) => {
            const response = await request(`${origin}/in/${name}`, { method: 'POST', body: 'x'.repeat(20_000) })
            await response.body.dump()
            return response.statusCode
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

test('a genuine sender gets through while another address floods the same source', async (t) => {
  const { target, origin, path } = await begin(t, 'sqlite')
  const body = Buffer.from('{"a":1}')
  const send = async (address: string, key: string, delivery: string) => {
    const signed = { 'x-hub-signature-256': sign(body, key), 'x-github-delivery': delivery, 'x-github-event': 'push' }
    const headers = { ...signed, 'x-forwarded-for': address }
    const response = await request(origin + path, { method: 'POST', headers, body })
    await response.body.dump()
    return response.statusCode
  }
  await target.measure('the same source is flooded', async () => {
    const flood = Array.from({ length: 200 }, (_, i) => send('198.51.100.66', 'wrong', `f${i}`))
    const genuine = []
    for (let i = 0; i < 20; i++) genuine.push(await send('192.0.2.1', secret, `g${i}`))
    assert.deepEqual(new Set(genuine), new Set([202]))
    assert.ok((await Promise.all(flood)).includes(429))
  })
})
