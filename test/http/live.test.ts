import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { LiveStream } from '../../src/features/live/stream-service.ts'
import type { SluiceOptions } from '../../src/index.ts'
import { fixedCaller } from '../../src/operations/auth.ts'
import { servicesOf } from '../../src/operations/services.ts'
import { StoreTrouble } from '../../src/store/store.ts'
import { atEnd } from '../e2e/at-end.ts'
import { eventually } from '../e2e/eventually.ts'
import { openPlace } from '../e2e/place.ts'
import { embed } from '../library/embedded.ts'
import { ServerClock } from '../virtual-clock.ts'
import { openApi } from './api.ts'

const adminKey = 'sk_of_the_live_test'

interface Event {
  readonly id: string
  readonly event: string
  // biome-ignore lint/suspicious/noExplicitAny: a test that reads a missing field fails by itself.
  readonly data: any
}

/** A server that delivers, with an endpoint that answers and one that refuses. */
async function open(t: TestContext, dialect: 'sqlite' | 'postgres', options: Partial<SluiceOptions> = {}) {
  const receiver = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(request.url === '/good' ? 204 : 500).end())
  })
  receiver.listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  atEnd(t, () => {
    receiver.closeAllConnections()
    receiver.close()
  })
  const target = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`
  const place = await openPlace(t, dialect)
  const sluice = await embed(t, place, { listen: '127.0.0.1:0', adminKey, allowHttp: true, ...options })
  for (const uid of ['a', 'b']) await sluice.applications.create({ name: uid, uid })
  for (const uid of ['good', 'bad']) await sluice.endpoints.create('a', { uid, url: `${target}/${uid}` })
  const send = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
    fetch(`${sluice.url}/api/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${adminKey}`,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
  const follow = async (query = '', headers: Record<string, string> = {}) => {
    const stop = new AbortController()
    atEnd(t, () => stop.abort())
    const response = await fetch(`${sluice.url}/api/v1/live${query}`, {
      headers: { authorization: `Bearer ${adminKey}`, ...headers },
      signal: stop.signal,
    })
    const events: Event[] = []
    let text = ''
    let retry: number | undefined
    const ended = (async () => {
      if (response.status !== 200) return
      for await (const chunk of response.body ?? []) {
        text += Buffer.from(chunk).toString()
        const frames = text.split('\n\n')
        text = frames.pop() ?? ''
        for (const frame of frames) {
          const fields = Object.fromEntries(frame.split('\n').map((line) => line.split(/: (.*)/s).slice(0, 2)))
          if (fields.event !== undefined && fields.event !== 'beat')
            events.push({ ...fields, data: JSON.parse(fields.data) } as Event)
          else if (fields.retry !== undefined) retry = Number(fields.retry)
        }
      }
    })().catch(() => {})
    const sees = (what: string, is: (event: Event) => boolean) => eventually(what, () => events.find(is))
    return { response, events, sees, ended, stop: () => stop.abort(), retry: () => retry }
  }
  return { sluice, send, follow, place }
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  describe(`the live stream on ${dialect}`, () => {
    test('shows the overview every second, attempts as they happen, and tasks', async (t) => {
      const { sluice, send, follow } = await open(t, dialect)
      const page = await follow()
      assert.equal(page.response.headers.get('content-type'), 'text/event-stream; charset=utf-8')
      assert.equal(page.response.headers.get('cache-control'), 'no-store')
      const first = await page.sees('the overview', ({ event }) => event === 'overview')
      assert.equal(first.data.storeUp, true)
      await sluice.publish('a', { eventType: 'video.trending', payload: '{}' })
      const good = await page.sees('the attempt that succeeds', ({ data }) => data.endpointUid === 'good')
      const bad = await page.sees('the attempt that fails', ({ data }) => data.endpointUid === 'bad')
      assert.deepEqual(
        [good.event, good.data.outcome, good.data.responseStatusCode, good.data.eventType, good.data.attempt],
        ['attempt', 'delivered', 204, 'video.trending', 1],
      )
      assert.deepEqual([bad.data.outcome, bad.data.responseStatusCode], ['retry', 500])
      assert.match(good.data.msgId, /^msg_/)
      const overviews = () => page.events.filter(({ event }) => event === 'overview')
      await eventually('three overviews', () => overviews().length >= 3)
      await eventually('a rate', () => overviews().some(({ data }) => data.perSecond.accepted > 0))
      const numbers = page.events.map(({ id }) => Number(id.split('-')[1]))
      assert.deepEqual(
        numbers,
        numbers.toSorted((x, y) => x - y),
      )
      assert.equal(new Set(numbers).size, numbers.length)
      assert.equal(page.retry(), 2000)

      const task = (await (await send('POST', '/app/a/dead/replay', {})).json()) as { id: string }
      await page.sees('the task', ({ event, data }) => event === 'task' && data.id === task.id)
    })

    test('of one endpoint shows its lane and its attempts alone', async (t) => {
      const { sluice, follow } = await open(t, dialect)
      assert.equal((await follow('?endpoint=bad')).response.status, 400)
      assert.equal((await follow('?app=a&endpoint=none')).response.status, 404)
      assert.equal((await follow('?app=b&endpoint=bad')).response.status, 404)
      const page = await follow('?app=a&endpoint=bad')
      await page.sees('the lane', ({ event }) => event === 'lane')
      await sluice.publish('a', { eventType: 'x', payload: '{}' })
      await page.sees('its attempt', ({ event, data }) => event === 'attempt' && data.endpointUid === 'bad')
      await page.sees('its delivery waiting', ({ event, data }) => event === 'lane' && data.waiting.total > 0)
      assert.ok(page.events.every(({ event, data }) => event === 'lane' || data.endpointUid === 'bad'))
    })
  })
}

describe('the live stream', () => {
  test('shows a caller of one application that application alone, and no figures of the server', async (t) => {
    const { sluice, send, follow } = await open(t, 'sqlite')
    await sluice.endpoints.create('b', { uid: 'other', url: 'http://127.0.0.1:9/' })
    const portal = async (app: string) => {
      const { token } = (await (await send('POST', `/auth/app-portal-access/${app}`, { readOnly: true })).json()) as {
        token: string
      }
      return { authorization: `Bearer ${token}` }
    }
    const [ofA, ofB] = [await follow('', await portal('a')), await follow('', await portal('b'))]
    assert.equal((await follow('?endpoint=good', await portal('a'))).response.status, 200)
    assert.equal((await follow('?endpoint=good', await portal('b'))).response.status, 404)
    assert.equal((await follow('?app=a&endpoint=good', await portal('b'))).response.status, 404)
    await sluice.publish('a', { eventType: 'x', payload: '{}' })
    await ofA.sees('its attempt', ({ event }) => event === 'attempt')
    await sluice.publish('b', { eventType: 'x', payload: '{}' })
    await ofB.sees('its attempt', ({ event }) => event === 'attempt')
    assert.deepEqual(new Set(ofA.events.map(({ data }) => data.endpointUid)), new Set(['good', 'bad']))
    assert.deepEqual(new Set(ofB.events.map(({ data }) => data.endpointUid)), new Set(['other']))
    assert.ok([...ofA.events, ...ofB.events].every(({ event }) => event === 'attempt'))
  })

  test('gives a reader that comes back the attempts that it missed', async (t) => {
    const { sluice, follow } = await open(t, 'sqlite')
    const [page, other] = [await follow(), await follow()]
    const { id } = await page.sees('an overview', ({ event }) => event === 'overview')
    page.stop()
    await page.ended
    await sluice.publish('a', { eventType: 'x', payload: '{}' })
    await other.sees('the attempt', ({ data }) => data.endpointUid === 'good')
    const again = await follow('', { 'last-event-id': id })
    await again.sees('the attempt again', ({ data }) => data.endpointUid === 'good')
    const stranger = await follow('', { 'last-event-id': `other-${id}` })
    await stranger.sees('an overview', ({ event }) => event === 'overview')
    assert.ok(stranger.events.every(({ event }) => event !== 'attempt'))
  })

  test('ends with its session, its key, its endpoint and the server', async (t) => {
    const { sluice, send, follow } = await open(t, 'sqlite')
    const key = (await (await send('POST', '/api-key', { name: 'k', scopes: ['read'] })).json()) as {
      id: string
      token: string
    }
    const ofKey = await follow('', { authorization: `Bearer ${key.token}` })
    const signedIn = await send('POST', '/session', undefined, { authorization: `Bearer ${key.token}` })
    const { sessionId } = (await signedIn.json()) as { sessionId: string }
    const [cookie = ''] = (signedIn.headers.get('set-cookie') ?? '').split(';')
    const ofSession = await followWith(t, `${sluice.url}/api/v1/live`, { cookie })
    const ofEndpoint = await follow('?app=a&endpoint=good')
    const ofAdmin = await follow()
    await ofKey.sees('an overview', ({ event }) => event === 'overview')

    assert.equal((await send('DELETE', `/auth/session/${sessionId}`)).status, 204)
    await ofSession.ended
    assert.equal((await send('DELETE', `/api-key/${key.id}`)).status, 204)
    await ofKey.ended
    assert.equal((await send('DELETE', '/app/a/endpoint/good')).status, 204)
    await ofEndpoint.ended
    const seen = ofAdmin.events.length
    await eventually('the others go on', () => ofAdmin.events.length > seen)
    await sluice.close()
    await ofAdmin.ended
  })

  test('is bounded for each key and in all, half of it for operators', async (t) => {
    const { send, follow } = await open(t, 'sqlite', { maxLive: 4, maxLivePerKey: 2 })
    const keyOf = async (fields: object) => {
      const made = await send('POST', '/api-key', { name: 'k', scopes: ['read'], ...fields })
      return { authorization: `Bearer ${((await made.json()) as { token: string }).token}` }
    }
    const mine = await keyOf({ app: 'a' })
    const statuses = [await follow('', mine), await follow('', mine), await follow('', mine)]
    assert.deepEqual(
      statuses.map(({ response }) => response.status),
      [200, 200, 429],
    )
    assert.match((await statuses[2]?.response.text()) ?? '', /maxLivePerKey/)
    assert.equal((await follow('', await keyOf({ app: 'b' }))).response.status, 429)
    const pages = [await follow(), await follow('', await keyOf({}))]
    assert.deepEqual(
      pages.map(({ response }) => response.status),
      [200, 200],
    )
    assert.match(await (await follow('', await keyOf({}))).response.text(), /maxLive\)/)
    pages[1]?.stop()
    await eventually('a place is free', async () => (await follow('', await keyOf({}))).response.status === 200)
  })

  test('keeps places for admin keys, whatever other keys of all applications take', async (t) => {
    const { send, follow } = await open(t, 'sqlite', { maxLive: 10, maxLivePerKey: 3 })
    const statusOf = async (scopes: readonly string[]) => {
      const made = await send('POST', '/api-key', { name: 'k', scopes })
      const { token } = (await made.json()) as { token: string }
      return (await follow('', { authorization: `Bearer ${token}` })).response.status
    }
    const statuses: number[] = []
    for (let i = 0; i < 12; i++) statuses.push(await statusOf(['read']))
    assert.deepEqual(statuses, [...Array(9).fill(200), ...Array(3).fill(429)])
    assert.equal((await follow()).response.status, 200)
    assert.equal(await statusOf(['admin']), 429, 'the last place is taken')
  })

  test('polls the store once for all readers, and not at all without one', async () => {
    const clock = new ServerClock()
    const { deps } = await openApi({ clock })
    let calls = 0
    const listTasks: typeof deps.store.listTasks = (page) => {
      calls++
      return deps.store.listTasks(page)
    }
    const services = servicesOf({ ...deps, store: { ...deps.store, listTasks } })
    const reader = { caller: fixedCaller, endpoint: null, lastEventId: undefined, recheck: async () => {} }
    const streams = Array.from({ length: 20 }, () => services.live.open(reader))
    for (const stream of streams) stream.resume()
    const closed = streams.map((stream) => once(stream, 'close'))
    await clock.advance(1)
    await eventually('the first poll', () => calls > 0)
    assert.equal(calls, 1)
    assert.equal(services.live.size, 20)
    for (const stream of streams) stream.destroy()
    await Promise.all(closed)
    assert.equal(services.live.size, 0)
    await clock.advance(3_600_000)
    assert.equal(calls, 1)
  })

  test('shows the data of an erasure to administrators alone', async () => {
    const clock = new ServerClock()
    const { deps } = await openApi({ clock })
    const input = { hash: 'h', waiting: 'cancel', requestedBy: 'key_1', address: '' } as const
    const task = { app: null, work: { type: 'subject.erase', input }, data: { scanned: 7 } } as const
    await deps.store.createTask(task)
    const { live } = servicesOf(deps)
    const reading = { ...fixedCaller, id: 'key_2', scopes: new Set(['read']) }
    const texts = await Promise.all(
      [fixedCaller, reading].map(async (caller) => {
        const stream = live.open({ caller, endpoint: null, lastEventId: undefined, recheck: async () => {} })
        let text = ''
        stream.on('data', (chunk) => {
          text += chunk
        })
        await clock.advance(1)
        await eventually('the task', () => text.includes('event: task'))
        stream.destroy()
        return text
      }),
    )
    assert.deepEqual(
      texts.map((text) => /"data":({.*?})/.exec(text)?.[1]),
      ['{"scanned":7}', '{}'],
    )
  })

  test('shows that the store does not answer, also before it ever did', async (t) => {
    const clock = new ServerClock()
    const { deps } = await openApi({ clock })
    await clock.advance(60_000)
    const condition = async () => {
      throw new StoreTrouble('the store is away')
    }
    const services = servicesOf({ ...deps, store: { ...deps.store, condition } })
    const reader = { caller: fixedCaller, endpoint: null, lastEventId: undefined, recheck: async () => {} }
    const stream = services.live.open(reader)
    t.after(() => stream.destroy())
    let text = ''
    stream.on('data', (chunk) => {
      text += chunk
    })
    await clock.advance(1)
    await eventually('the overview', () => text.includes('"storeUp":false'))
  })

  test('is no operation of the library, because it has no end', async (t) => {
    const { sluice } = await open(t, 'sqlite')
    await assert.rejects(sluice.request('GET', '/live'), /follow it over HTTP/)
  })

  test('holds the newest state and few attempts for a reader that does not read', () => {
    const stream = new LiveStream(() => {})
    const frame = (kind: string, n: number) => ({ n, text: `event: ${kind}\ndata: ${n} ${'x'.repeat(2000)}\n\n` })
    stream.read(0)
    for (let n = 0; n < 10_000; n++) {
      stream.show('overview', frame('overview', n))
      stream.add(frame('attempt', n))
    }
    let text = ''
    for (let chunk = stream.read(); chunk !== null; chunk = stream.read()) text += chunk
    assert.ok(text.length < 300_000, String(text.length))
    assert.ok(text.includes('event: overview\ndata: 9999 ') && text.includes('event: attempt\ndata: 9999 '))
    assert.ok(text.split('event: overview').length < 20)
    stream.destroy()
  })
})

async function followWith(t: TestContext, url: string, headers: Record<string, string>) {
  const stop = new AbortController()
  atEnd(t, () => stop.abort())
  const response = await fetch(url, { headers, signal: stop.signal })
  assert.equal(response.status, 200)
  return { ended: response.text().catch(() => '') }
}
