import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { describe, test } from 'node:test'
import {
  AppError,
  ConfigError,
  FileOwnedError,
  NotEnlistableError,
  openSluice,
  SecretError,
  SignatureError,
  verify,
} from '../../src/index.ts'
import { eventually } from '../e2e/eventually.ts'
import { openPlace, pendingCount, sqlitePlace } from '../e2e/place.ts'
import { Receiver } from '../e2e/receiver.ts'
import { connect, embed } from './embedded.ts'

const adminKey = 'sk_library_0123456789abcdef'
const event = { eventType: 'video.trending', payload: { views: 1 } }

/** Undefined as long as it is refused: what it asks for is not there yet. */
async function orUndefined<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked
  } catch (error) {
    if (error instanceof AppError && (error.code === 'not_found' || error.code === 'conflict')) return undefined
    throw error
  }
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  describe(`the library on ${dialect}`, () => {
    test('delivers what it publishes: an object as JSON, text and bytes as they are', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      const sluice = await embed(t, place)
      await sluice.applications.create({ name: 'Acme', uid: 'acme' })
      await sluice.endpoints.create('acme', { url: `${receiver.url}/hook` })
      const bytes = new Uint8Array(256).map((_, i) => i)
      const object = await sluice.publish('acme', { eventType: 'a', payload: { big: 1e21, text: 'é' } })
      const text = await sluice.publish('acme', { eventType: 'b', payload: '{ "price":1.0 }' })
      const binary = await sluice.publish('acme', {
        eventType: 'c',
        payload: bytes,
        contentType: 'application/x-thing',
      })
      await receiver.until('all came', () => receiver.arrivals.length === 3)
      const came = (id: string) => receiver.arrivals.find(({ headers }) => headers['webhook-id'] === id)
      assert.equal(came(object.id)?.body.toString(), '{"big":1e+21,"text":"é"}')
      assert.equal(came(object.id)?.headers['content-type'], 'application/json')
      assert.equal(came(text.id)?.body.toString(), '{ "price":1.0 }')
      assert.deepEqual(came(binary.id)?.body, Buffer.from(bytes))
      assert.equal(came(binary.id)?.headers['content-type'], 'application/x-thing')
    })

    test('schedules are managed, and run by hand', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      const sluice = await embed(t, place)
      await sluice.applications.create({ name: 'Acme', uid: 'acme' })
      await sluice.endpoints.create('acme', { url: `${receiver.url}/hook` })
      const timing = { cron: '0 7 * * *', timezone: 'Europe/Berlin' }
      const made = await sluice.schedules.create('acme', { ...timing, uid: 'daily', eventType: 'a', payload: { n: 1 } })
      assert.deepEqual([made.paused, made.nextRuns.length, made.payload], [false, 5, { n: 1 }])
      await sluice.schedules.pause('acme', 'daily')
      assert.equal((await sluice.schedules.get('acme', made.id)).paused, true)
      assert.deepEqual((await sluice.schedules.update('acme', 'daily', { payload: { n: 2 } })).payload, { n: 2 })
      const id = await sluice.schedules.run('acme', 'daily')
      await receiver.until('it came', () => receiver.arrivals.length === 1)
      assert.deepEqual(
        [receiver.arrivals[0]?.headers['webhook-id'], receiver.arrivals[0]?.body.toString()],
        [id, '{"n":2}'],
      )
      await sluice.schedules.resume('acme', 'daily')
      assert.equal((await sluice.schedules.list('acme')).data.length, 1)
      await sluice.schedules.delete('acme', 'daily')
      await assert.rejects(sluice.schedules.get('acme', 'daily'), { code: 'not_found' })
    })

    test('circuits are opened, closed and reset by hand, and a lane tells of it', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      const sluice = await embed(t, place)
      await sluice.applications.create({ name: 'Acme', uid: 'acme' })
      await sluice.endpoints.create('acme', { url: `${receiver.url}/hook`, uid: 'main' })
      assert.equal((await sluice.endpoints.openCircuit('acme', 'main')).uid, 'main')
      const kept = await sluice.publish('acme', event)
      const { circuit, waiting } = await sluice.lanes.get('acme', 'main')
      assert.deepEqual([circuit.state, circuit.manual, waiting.total], ['open', true, 1])
      assert.equal((await sluice.explain('acme', 'main', kept.id)).reason, 'opened_by_hand')
      assert.deepEqual(receiver.arrivals, [])
      await sluice.endpoints.resetCircuit('acme', 'main')
      await receiver.until('it came', () => receiver.arrivals.length === 1)
      await sluice.endpoints.openCircuit('acme', 'main')
      await sluice.publish('acme', event)
      await sluice.endpoints.closeCircuit('acme', 'main')
      await receiver.until('the next came', () => receiver.arrivals.length === 2)
      await assert.rejects(sluice.endpoints.openCircuit('acme', 'other'), { code: 'not_found' })
    })

    test('the first delivery of an ordered lane is retried or skipped, and a skipped one is a dead letter to replay', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      const sluice = await embed(t, place)
      await sluice.applications.create({ name: 'Acme', uid: 'acme' })
      const retry = { waits: { kind: 'list' as const, ms: [] } }
      const inLine = { uid: 'line', order: 'fifo' as const, deadHead: 'block' as const, retry }
      await sluice.endpoints.create('acme', { url: `${receiver.url}/line`, ...inLine })
      let isWell = false
      const cameTo = () => receiver.at('/line').map(({ headers }) => headers['webhook-id'])
      receiver.behave('/line', () => ({ status: isWell ? 200 : 500 }))
      const first = await sluice.publish('acme', event)
      const second = await sluice.publish('acme', event)
      const blocked = () => eventually('it blocks', () => orUndefined(sluice.lanes.retryHead('acme', 'line')))
      assert.equal(await blocked(), first.id)
      await receiver.until('it was tried again', () => cameTo().length === 2)
      isWell = true
      await eventually('it blocks again', () => orUndefined(sluice.lanes.skipHead('acme', 'line', first.id)))
      await receiver.until('the next came', () => cameTo().length === 3)
      assert.deepEqual(cameTo(), [first.id, first.id, second.id])

      const which = { endpoint: 'line', eventTypes: [event.eventType], reason: 'skipped' as const }
      const list = (before: Date) => sluice.deadLetters.list('acme', { ...which, before, limit: 10 })
      const soon = new Date(Date.now() + 3_600_000)
      const [letter] = await eventually('it is dead', async () => {
        const { data } = await list(soon)
        return data.length > 0 && data
      })
      assert.deepEqual([letter?.msgId, letter?.reason], [first.id, 'skipped'])
      assert.deepEqual((await list(new Date(0))).data, [])
      assert.equal((await sluice.deadLetters.get('acme', first.id, 'line')).trail.length, 2)
      assert.match((await sluice.deadLetters.replay('acme', { endpointId: 'line', perSecond: 100 })).id, /^qtask_/)
      await receiver.until('it came at last', () => cameTo().length === 4)
      assert.equal(cameTo().at(-1), first.id)
    })

    test('a message is not delivered before its deliverAt', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      const sluice = await embed(t, place)
      await sluice.applications.create({ name: 'Acme', uid: 'acme' })
      await sluice.endpoints.create('acme', { url: `${receiver.url}/hook` })
      const deliverAt = new Date(Date.now() + 1500)
      const later = await sluice.publish('acme', { ...event, deliverAt: deliverAt.toISOString() })
      const never = await sluice.publish('acme', { ...event, deliverAt: '2026-01-01T00:00:00Z' })
      await receiver.until('both came', () => receiver.arrivals.length === 2)
      assert.ok(Date.now() >= deliverAt.getTime())
      assert.deepEqual(
        receiver.arrivals.map(({ headers }) => headers['webhook-id']),
        [never.id, later.id],
      )
    })

    test('messages published together are stored together or not at all', async (t) => {
      const place = await openPlace(t, dialect)
      const sluice = await embed(t, place, { deliver: false })
      await sluice.applications.create({ name: 'Acme', uid: 'acme' })
      await sluice.endpoints.create('acme', { url: 'https://example.com/hook' })
      const twin = { ...event, eventId: 'twin' }
      await assert.rejects(sluice.publishTogether('acme', [event, twin, twin]), { code: 'conflict' })
      await assert.rejects(sluice.publishTogether('acme', [event, { ...event, eventType: '' }]), { code: 'validation' })
      await assert.rejects(sluice.publish('acme', { ...event, orderingKey: 'a\0b' }), { code: 'validation' })
      assert.equal(await pendingCount(place), 0)
      const messages = await sluice.publishTogether('acme', [event, twin])
      assert.equal(new Set(messages.map(({ id }) => id)).size, 2)
      assert.equal(await pendingCount(place), 2)
      assert.deepEqual(await sluice.publishTogether('acme', []), [])
    })

    test('a message of a transaction that rolls back never comes; a committed one does', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      const sluice = await embed(t, place)
      await sluice.applications.create({ name: 'Acme', uid: 'acme' })
      await sluice.endpoints.create('acme', { url: `${receiver.url}/hook` })
      const own = await connect(t, place)
      await own.run('begin')
      const undone = await own.publishWith(sluice, 'acme', { ...event, eventId: 'order-1' })
      await own.run('rollback')
      await own.run('begin')
      const done = await own.publishWith(sluice, 'acme', { ...event, eventId: 'order-1' })
      await own.run('commit')
      done.committed()
      await receiver.until('it came', () => receiver.arrivals.length > 0)
      assert.deepEqual(
        receiver.arrivals.map(({ headers }) => headers['webhook-id']),
        [done.id],
      )
      await assert.rejects(sluice.request('GET', `/app/acme/msg/${undone.id}`), { code: 'not_found' })
    })

    test('a message for one named endpoint goes to it alone, also in a transaction', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      const sluice = await embed(t, place)
      await sluice.applications.create({ name: 'Acme', uid: 'acme' })
      for (const uid of ['one', 'other']) {
        await sluice.endpoints.create('acme', { url: `${receiver.url}/${uid}`, uid, filter: 'false' })
      }
      const first = await sluice.publish('acme', { ...event, endpoint: 'one' })
      const own = await connect(t, place)
      await own.run('begin')
      await assert.rejects(own.publishWith(sluice, 'acme', { ...event, endpoint: 'none' }), { code: 'validation' })
      const second = await own.publishWith(sluice, 'acme', { ...event, endpoint: 'one' })
      await own.run('commit')
      second.committed()
      await receiver.until('both came', () => receiver.arrivals.length >= 2)
      const came = receiver.arrivals.map(({ path, headers }) => `${path} ${headers['webhook-id']}`)
      assert.deepEqual(came.toSorted(), [`/one ${first.id}`, `/one ${second.id}`].toSorted())
    })

    test('publishing with a connection says what is wrong, with the message and with the connection', async (t) => {
      const place = await openPlace(t, dialect)
      const sluice = await embed(t, place, { deliver: false })
      await sluice.applications.create({ name: 'Acme', uid: 'acme' })
      const own = await connect(t, place)
      await assert.rejects(own.publishWith(sluice, 'acme', event), NotEnlistableError)
      await own.run('begin')
      await assert.rejects(own.publishWith(sluice, 'nobody', event), { code: 'not_found' })
      await assert.rejects(own.publishWith(sluice, 'acme', { ...event, eventType: 'no spaces' }), {
        code: 'validation',
      })
      await own.publishWith(sluice, 'acme', { ...event, eventId: 'order-1' })
      await assert.rejects(own.publishWith(sluice, 'acme', { ...event, eventId: 'order-1' }), { code: 'conflict' })
      await own.run('commit')
    })

    test('publishing in a transaction keeps to the dedupe window and to what may wait', async (t) => {
      const place = await openPlace(t, dialect)
      const sluice = await embed(t, place, { deliver: false, maxWaitingPerEndpoint: 2 })
      await sluice.applications.create({ name: 'Acme', uid: 'acme', dedupeSeconds: 60 })
      await sluice.endpoints.create('acme', { url: 'https://example.com/hook' })
      const own = await connect(t, place)
      await own.run('begin')
      const first = await own.publishWith(sluice, 'acme', event)
      assert.equal((await own.publishWith(sluice, 'acme', event)).id, first.id)
      await own.publishWith(sluice, 'acme', { ...event, payload: { views: 2 } })
      await assert.rejects(own.publishWith(sluice, 'acme', { ...event, payload: { views: 3 } }), { code: 'overloaded' })
      await own.run('commit')
      assert.equal(await pendingCount(place), 2)
    })

    test('explain() says why an application, an endpoint and a delivery wait', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      receiver.behave('/hook', () => ({ status: 429, headers: { 'retry-after': '120' } }))
      const sluice = await embed(t, place)
      await sluice.applications.create({ name: 'Acme', uid: 'acme' })
      await sluice.endpoints.create('acme', { url: `${receiver.url}/hook`, uid: 'main', concurrency: 1 })
      assert.equal((await sluice.explain('acme', 'main')).reason, 'idle')
      const first = await sluice.publish('acme', event)
      await receiver.until('it came', () => receiver.arrivals.length === 1)
      let told = await sluice.explain('acme', 'main', first.id)
      for (let looks = 0; looks < 2000 && told.blockers.length === 0; looks++) {
        told = await sluice.explain('acme', 'main', first.id)
      }
      // A retry's wait may be longer than the silence that was asked for; never shorter.
      assert.ok(told.blockers.some(({ reason }) => reason === 'held'))
      assert.ok(Date.parse(told.expectedAt ?? '') > Date.parse(told.asOf) + 100_000, `${told.expectedAt}`)
      const { data, detail } = await sluice.explain('acme')
      assert.deepEqual([data[0]?.uid, data[0]?.waiting.total], ['main', 1])
      assert.match(detail, /^1 delivery waits for 1 endpoint: 1 (held|waiting for retry)\.$/)
      await assert.rejects(sluice.explain('acme', 'nobody'), { code: 'not_found' })
    })

    test('a process that does not deliver publishes for one that does', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      const delivering = await embed(t, place)
      const publishing = await embed(t, place, { deliver: false })
      await publishing.applications.create({ name: 'Acme', uid: 'acme' })
      await publishing.endpoints.create('acme', { url: `${receiver.url}/hook` })
      const { id } = await publishing.publish('acme', event)
      await receiver.until('it came', () => receiver.arrivals.length === 1)
      assert.equal(receiver.arrivals[0]?.headers['webhook-id'], id)
      await delivering.close()
      assert.equal(await pendingCount(place), 0)
    })
  })
}

describe('the library', () => {
  test('refuses what the API refuses, with the same codes and fields', async (t) => {
    const sluice = await embed(t, await sqlitePlace(t), { bodyLimit: '1KiB' })
    await sluice.applications.create({ name: 'Acme', uid: 'acme' })
    await assert.rejects(sluice.publish('nobody', event), { code: 'not_found' })
    await assert.rejects(sluice.publish('../acme', event), { code: 'not_found' })
    await assert.rejects(sluice.publish('acme', { eventType: 'a b', payload: {} }), isWrong('eventType'))
    await assert.rejects(sluice.publish('acme', { ...event, payload: 7 as never }), isWrong('payload'))
    await assert.rejects(sluice.publish('acme', { ...event, contentType: 'a\nb' }), isWrong('contentType'))
    await assert.rejects(sluice.publish('acme', { ...event, payload: 'x'.repeat(1025) }), { code: 'payload_too_large' })
    await sluice.publish('acme', { ...event, eventId: 'once' })
    await assert.rejects(sluice.publish('acme', { ...event, eventId: 'once' }), { code: 'conflict' })
    await assert.rejects(sluice.endpoints.create('acme', { url: 'http://10.0.0.1/' }), isWrong('url'))
    await assert.rejects(sluice.applications.create({ name: 'Acme', uid: 'acme' }), { code: 'conflict' })
    await assert.rejects(sluice.applications.get('../app'), { code: 'not_found' })
    // It would be the path of the application.
    for (const name of ['..', '.', ''])
      await assert.rejects(sluice.endpoints.delete('acme', name), { code: 'invalid_request' })
    assert.equal((await sluice.applications.get('acme')).uid, 'acme')
    await assert.rejects(sluice.request('GET', '/nothing/here'), { code: 'not_found' })
  })

  test('looks back over messages and attempts, sends again, and verifies what a receiver got', async (t) => {
    const receiver = await Receiver.listen(t)
    const sluice = await embed(t, await sqlitePlace(t))
    await sluice.applications.create({ name: 'Acme', uid: 'acme' })
    await sluice.endpoints.create('acme', { uid: 'main', url: `${receiver.url}/hook` })
    const { id } = await sluice.publish('acme', { eventType: 'a.b', payload: { n: 1 }, tags: ['red'] })
    await sluice.publish('acme', { eventType: 'c.d', payload: {} })
    const attempt = await eventually('it is delivered', async () => {
      const { data } = await sluice.attempts.ofMessage('acme', id)
      return data[0]
    })
    assert.deepEqual([attempt.msgId, attempt.statusText], [id, 'success'])
    await eventually('both are', async () => (await sluice.attempts.atEndpoint('acme', 'main')).data.length === 2)
    assert.equal((await sluice.messages.get('acme', id)).eventType, 'a.b')
    for (const which of [{ eventTypes: ['a.b'] }, { tag: 'red' }]) {
      assert.deepEqual(
        (await sluice.messages.list('acme', which)).data.map((message) => message.id),
        [id],
      )
    }
    const { reason } = await sluice.explain('acme', 'main', id)
    const known: typeof reason = 'delivered'
    assert.equal(reason, known)
    // @ts-expect-error: a reason is one of the known names
    const unknown: typeof reason = 'lost'
    assert.ok(unknown)
    await sluice.messages.resend('acme', id, 'main')
    await eventually('it came again', async () => (await sluice.attempts.ofMessage('acme', id)).data.length === 2)

    const secret = await sluice.endpoints.secret('acme', 'main')
    const received = receiver.arrivals.find(({ headers }) => headers['webhook-id'] === id)
    assert.ok(received)
    await verify(received, secret)
    await verify({ ...received, body: received.body.toString() }, secret)
    await assert.rejects(verify({ ...received, body: '{"n":2}' }, secret), SignatureError)
    await assert.rejects(verify(received, 'nonsense'), SecretError)
    await sluice.messages.expunge('acme', id)
    assert.notDeepEqual((await sluice.messages.get('acme', id)).payload, { n: 1 })
  })

  test('manages applications, endpoints and views', async (t) => {
    const sluice = await embed(t, await sqlitePlace(t), { deliver: false })
    const app = await sluice.applications.getOrCreate({ name: 'Acme', uid: 'acme' })
    assert.deepEqual(await sluice.applications.getOrCreate({ name: 'Other', uid: 'acme' }), app)
    assert.deepEqual(await sluice.applications.get('acme'), app)
    await sluice.applications.create({ name: 'Second' })
    const page = await sluice.applications.list({ limit: 1 })
    assert.deepEqual([page.data.map(({ id }) => id), page.done], [[app.id], false])
    const rest = await sluice.applications.list({ limit: 1, iterator: page.iterator })
    assert.deepEqual([rest.data.map(({ name }) => name), rest.done], [['Second'], true])
    const endpoint = await sluice.endpoints.create('acme', { url: 'https://example.com/hook', throttleRate: 5 })
    const changed = await sluice.endpoints.update('acme', endpoint.id, { throttleRate: null, description: 'calm' })
    assert.deepEqual([changed.throttleRate, changed.description], [null, 'calm'])
    assert.deepEqual(await sluice.endpoints.get('acme', endpoint.id), changed)
    assert.deepEqual((await sluice.endpoints.list('acme')).data, [changed])
    const first = await sluice.endpoints.secret('acme', endpoint.id)
    assert.match(first, /^whsec_/)
    const second = await sluice.endpoints.rotateSecret('acme', endpoint.id, { gracePeriodSeconds: 60 })
    assert.notEqual(second, first)
    assert.equal(await sluice.endpoints.secret('acme', endpoint.id), second)
    await sluice.endpoints.pause('acme', endpoint.id)
    assert.equal((await sluice.endpoints.get('acme', endpoint.id)).paused, true)
    await sluice.endpoints.resume('acme', endpoint.id)
    assert.equal((await sluice.endpoints.get('acme', endpoint.id)).paused, false)
    const view = await sluice.views.create({ name: 'Calm', uid: 'calm', of: 'endpoints', app: 'acme', search: 'calm' })
    assert.deepEqual((await sluice.views.list()).data, [view])
    assert.equal((await sluice.views.update('calm', { search: null })).search, null)
    assert.equal((await sluice.views.get('calm')).app, 'acme')
    await sluice.views.delete(view.id)
    await assert.rejects(sluice.views.get('calm'), { code: 'not_found' })
    await sluice.endpoints.delete('acme', endpoint.id)
    await assert.rejects(sluice.endpoints.get('acme', endpoint.id), { code: 'not_found' })
    assert.equal((await sluice.applications.update('acme', { name: 'Other' })).name, 'Other')
    await sluice.applications.delete('acme')
    await assert.rejects(sluice.publish('acme', event), { code: 'not_found' })
  })

  test('serves the API when asked to, under the key it was given and no other', async (t) => {
    const apiKey = 'sk_library0123456789abcdefghijklmnopqrst'
    const sluice = await embed(t, await sqlitePlace(t), { listen: '127.0.0.1:0', adminKey: apiKey, deliver: false })
    await sluice.applications.create({ name: 'Acme', uid: 'acme' })
    const get = (key: string) => fetch(`${sluice.url}/api/v1/app/acme`, { headers: { authorization: `Bearer ${key}` } })
    assert.equal((await get(apiKey)).status, 200)
    assert.equal((await get('sk_wrong')).status, 401)
    await sluice.close()
    await assert.rejects(get(apiKey))
  })

  test('the publisher is answered before the request to the receiver is written', async (t) => {
    const receiver = await Receiver.listen(t)
    const sluice = await embed(t, await sqlitePlace(t), { listen: '127.0.0.1:0', adminKey })
    await sluice.applications.create({ name: 'Acme', uid: 'acme' })
    await sluice.endpoints.create('acme', { url: `${receiver.url}/hook` })
    const written: string[] = []
    const { write } = Socket.prototype
    t.mock.method(Socket.prototype, 'write', function (this: Socket, ...args: Parameters<typeof write>) {
      const [what] = /^(?:HTTP\/1\.1 202|POST \/hook)/.exec(String(args[0])) ?? []
      if (what !== undefined) written.push(what)
      return write.apply(this, args)
    })
    const headers = { authorization: `Bearer ${adminKey}`, 'content-type': 'application/json' }
    for (let sent = 1; sent <= 20; sent++) {
      await fetch(`${sluice.url}/api/v1/app/acme/msg`, { method: 'POST', headers, body: JSON.stringify(event) })
      await receiver.until('it came', () => receiver.arrivals.length === sent)
    }
    assert.deepEqual(written, Array(20).fill(['HTTP/1.1 202', 'POST /hook']).flat())
  })

  test('says that it was closed, with a code', async (t) => {
    const sluice = await embed(t, await sqlitePlace(t), { deliver: false })
    await sluice.applications.create({ name: 'Acme', uid: 'acme' })
    await sluice.close()
    const closed = (error: unknown) => error instanceof AppError && error.code === 'closed'
    await assert.rejects(sluice.publish('acme', { eventType: 'a', payload: {} }), closed)
    await assert.rejects(sluice.publishTogether('acme', [{ eventType: 'a', payload: {} }]), closed)
    await assert.rejects(sluice.applications.list(), closed)
    await assert.rejects(sluice.request('GET', '/app'), closed)
    assert.throws(() => sluice.publishWith({} as never, 'acme', { eventType: 'a', payload: {} }), closed)
  })

  test('names every wrong setting, and a setting that does not exist', async () => {
    const options = { store: 'mysql:x', lease: 'soon', inFlght: 3 } as never
    await assert.rejects(openSluice(options), (error: unknown) => {
      assert(error instanceof ConfigError)
      assert.equal(error.problems.length, 3)
      assert.match(error.message, /inFlght: unknown setting; did you mean inFlight\?/)
      return true
    })
  })

  test('a file that another delivers from cannot be delivered from, and closing gives it back', async (t) => {
    const place = await sqlitePlace(t)
    const first = await embed(t, place)
    await assert.rejects(embed(t, place), FileOwnedError)
    await Promise.all([first.close(), first.close()])
    await using second = await embed(t, place)
    assert.equal((await second.applications.list()).done, true)
  })
})

function isWrong(field: string): (error: unknown) => boolean {
  return (error) => error instanceof AppError && error.fields.some(({ at }) => at.at(-1) === field)
}
