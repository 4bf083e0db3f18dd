import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { decodeKey, encodeId } from '../../src/domain/ids.ts'
import { TaskRunner } from '../../src/engine/worker-jobs.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { systemRandomText } from '../../src/runtime/random.ts'
import type { Settlement } from '../../src/store/store.ts'
import { eventually } from '../e2e/eventually.ts'
import { type Api, openApi } from './api.ts'

type Verdict = Settlement['verdict']
const dead: Verdict = { state: 'dead', reason: 'exhausted' }

interface Scene extends Api {
  readonly worker: number
  /** Publishes a message and answers its id. */
  publish(fields?: Record<string, unknown>): Promise<string>
  /** Plays the worker: ends everything due at an endpoint with this verdict. */
  settle(uid: string, verdict: Verdict, attempt?: Partial<Settlement['attempt']>, itsClass?: 0 | 1 | 2): Promise<void>
  /** Does all background work. */
  work(): Promise<void>
  ids(path: string): Promise<string[]>
}

/** Applications `a` with the endpoints `one` and `two`, and `b` with none. */
async function scene(): Promise<Scene> {
  const api = await openApi()
  const { ask, store } = api
  await ask('POST', '/app', { name: 'A', uid: 'a' })
  await ask('POST', '/app', { name: 'B', uid: 'b' })
  for (const uid of ['one', 'two']) {
    const url = `https://${uid}.example.com/`
    await ask('POST', '/app/a/endpoint', { url, uid, channels: uid === 'two' ? ['c2'] : null })
  }
  const worker = await store.join({ leaseMs: 60_000, description: 'test' })
  let attempts = 0
  return {
    ...api,
    worker,
    async publish(fields = {}) {
      const sent = await ask('POST', '/app/a/msg', { eventType: 'x', payload: { n: 1 }, ...fields })
      assert.equal(sent.status, 202, sent.text)
      return sent.json.id
    },
    async settle(uid, verdict, attempt = {}, itsClass = 0) {
      const app = await store.findApplication('a')
      const endpoint = await store.findEndpoint(app?.key ?? 0, uid)
      assert.ok(app && endpoint)
      const [due] = await store.readDue([{ endpoint: endpoint.key, class: itsClass, after: null, limit: 1000 }])
      const ok = verdict.state === 'delivered'
      const settlements = (due?.rows ?? []).map((row) => ({
        endpoint: endpoint.key,
        app: app.key,
        row,
        attempt: {
          id: encodeId('atmpt', row.message + ++attempts, systemRandomText),
          startedAgoMs: () => 5,
          durationMs: 4,
          status: ok ? 200 : 500,
          code: ok ? ('delivered' as const) : ('refused' as const),
          error: ok ? null : 'the receiver answered 500',
          response: Buffer.from(ok ? 'fine' : 'oops'),
          ...attempt,
        },
        verdict,
      }))
      assert.ok(settlements.length > 0, 'nothing to settle')
      await store.settle(worker, settlements, { holds: [], disable: [], health: [] })
    },
    async work() {
      const runner = new TaskRunner(store, systemClock)
      while (await runner.step());
    },
    async ids(path) {
      const { json, text } = await ask('GET', path)
      assert.ok(json?.data, text)
      return json.data.map(({ id, msgId }: { id?: string; msgId?: string }) => id ?? msgId)
    },
  }
}

/** Follows a list to its end, forwards, and from there backwards; answers what it saw on either way. */
async function walk({ ask }: Scene, path: string): Promise<{ there: string[]; back: string[] }> {
  const there: string[] = []
  const back: string[] = []
  const idOf = ({ id, msgId }: { id?: string; msgId?: string }) => id ?? (msgId as string)
  let page = (await ask('GET', path)).json
  for (let pages = 0; pages < 50; pages++) {
    there.push(...page.data.map(idOf))
    if (page.done) break
    page = (await ask('GET', `${path}&iterator=${page.iterator}`)).json
  }
  for (let pages = 0; pages < 50 && page.prevIterator !== null; pages++) {
    page = (await ask('GET', `${path}&iterator=${page.prevIterator}`)).json
    back.unshift(...page.data.map(idOf))
    if (page.done) break
  }
  return { there, back }
}

describe('the messages of an application', () => {
  test('are listed latest first or oldest first, page by page in both directions', async () => {
    const s = await scene()
    const sent: string[] = []
    for (let i = 0; i < 7; i++) sent.push(await s.publish())
    assert.deepEqual(await s.ids('/app/a/msg'), sent.toReversed())
    assert.deepEqual(await s.ids('/app/a/msg?order=ascending'), sent)
    const { there, back } = await walk(s, '/app/a/msg?limit=3')
    assert.deepEqual(there, sent.toReversed())
    assert.deepEqual(back, sent.toReversed().slice(0, 6))
    assert.deepEqual(await s.ids('/app/b/msg'), [])
  })

  test('are filtered by channel, tag, type and time', async () => {
    const s = await scene()
    const plain = await s.publish()
    const marked = await s.publish({ eventType: 'y', channels: ['c1', 'c2'], tags: ['t1', 't2'] })
    assert.deepEqual(await s.ids('/app/a/msg?channel=c2'), [marked])
    assert.deepEqual(await s.ids('/app/a/msg?tag=t2'), [marked])
    assert.deepEqual(await s.ids('/app/a/msg?event_types=z,x'), [plain])
    assert.deepEqual(await s.ids('/app/a/msg?event_types=x,y'), [marked, plain])
    assert.deepEqual(await s.ids('/app/a/msg?before=2020-01-01T00:00:00Z'), [])
    assert.deepEqual(await s.ids('/app/a/msg?after=2020-01-01T00:00:00Z&before=9999-12-31T23:59:59Z'), [marked, plain])
    assert.deepEqual(await s.ids('/app/a/msg?after=9999-12-31T23:59:59Z'), [])
    for (const query of [
      'before=yesterday',
      'after=2020-13-01T00:00:00Z',
      'limit=251',
      'iterator=ep_x',
      'iterator=-',
    ]) {
      const answer = await s.ask('GET', `/app/a/msg?${query}`)
      assert.deepEqual([answer.status, answer.json.detail[0].loc[0]], [422, 'query'], query)
    }
  })

  test('are answered with the very bytes of their payload, or without it', async () => {
    const s = await scene()
    await s.ask('POST', '/app/a/msg', '{"eventType":"x","payload":{ "n" : 1.0,"big":9007199254740993}}')
    const listed = await s.ask('GET', '/app/a/msg')
    assert.ok(listed.text.includes('"payload":{ "n" : 1.0,"big":9007199254740993}'), listed.text)
    const [without] = (await s.ask('GET', '/app/a/msg?with_content=false')).json.data
    assert.deepEqual(without.payload, {})
  })

  test('are looked through a part at a time when a filter leaves out nearly all', async () => {
    const s = await scene()
    const wanted = await s.publish({ eventType: 'rare' })
    const batch = { messages: Array.from({ length: 1000 }, () => ({ eventType: 'x', payload: {} })) }
    for (let i = 0; i < 3; i++) {
      const sent = await s.ask('POST', '/app/b/msg/batch', batch)
      assert.ok(sent.status < 300, sent.text)
    }
    const app = await s.store.findApplication('b')
    assert.ok(app)
    const [last] = (await s.ask('GET', '/app/b/msg?limit=1')).json.data
    const page = (await s.ask('GET', '/app/b/msg?event_types=rare')).json
    assert.deepEqual([page.data, page.done], [[], false])
    assert.ok(page.iterator !== null && page.iterator !== last.id)
    const next = (await s.ask('GET', `/app/b/msg?event_types=rare&iterator=${page.iterator}`)).json
    assert.deepEqual([next.data, next.done], [[], true])
    assert.deepEqual(await s.ids('/app/a/msg?event_types=rare'), [wanted])
  })
})

describe('an expunged message', () => {
  test('says that it has expired, waits nowhere and cannot be sent again', async () => {
    const s = await scene()
    const id = await s.publish({ channels: ['c2'] })
    await s.settle('two', { state: 'waiting', waitMs: 60_000 })
    assert.equal((await s.ask('DELETE', `/app/a/msg/${id}/content`)).status, 204)
    assert.deepEqual((await s.ask('GET', `/app/a/msg/${id}`)).json.payload, { expired: true })
    assert.deepEqual((await s.ask('GET', '/app/a/msg')).json.data[0].payload, { expired: true })
    assert.equal((await s.store.counts()).pending, 0)
    const standing = (await s.ask('GET', `/app/a/msg/${id}/endpoint`)).json.data
    assert.deepEqual(
      standing.map((d: { uid: string; statusText: string; nextAttempt: unknown }) => [
        d.uid,
        d.statusText,
        d.nextAttempt,
      ]),
      [
        ['one', 'fail', null],
        ['two', 'fail', null],
      ],
    )
    const listed = async (query: string) => (await s.ask('GET', `/app/a/endpoint/two/msg?${query}`)).json.data[0]
    assert.equal((await listed('expanded_statuses=true')).statusText, 'canceled')
    assert.equal((await listed('status=2')).id, id)
    assert.equal(await listed('status=1'), undefined)
    const again = await s.ask('POST', `/app/a/msg/${id}/endpoint/two/resend`)
    assert.deepEqual([again.status, again.json.code], [400, 'missing_payload'])
    assert.equal((await s.ask('GET', `/app/a/msg/${id}/endpoint/one/why`)).json.reason, 'cancelled')
    assert.equal((await s.ask('DELETE', `/app/a/msg/${id}/content`)).status, 204)
    assert.equal((await s.ask('DELETE', `/app/b/msg/${id}/content`)).status, 404)
  })
})

describe('a message whose payload was erased once delivered', () => {
  test('keeps its history, and a resend is refused with the reason', async () => {
    const s = await scene()
    const app = await s.ask('PATCH', '/app/a', { eraseDelivered: true })
    assert.deepEqual([app.status, app.json.eraseDelivered], [200, true])
    const id = await s.publish({ channels: ['c2'], tags: ['t'] })
    for (const uid of ['one', 'two']) await s.settle(uid, { state: 'delivered' })
    const key = decodeKey('msg', id) as number
    const at = await eventually('the end of the payload is due', async () => {
      return (await s.store.duePayloadEnds(10)).find(({ message }) => message === key)?.at
    })
    assert.deepEqual(await s.store.eraseDelivered([{ message: key, at }]), [key])
    const message = (await s.ask('GET', `/app/a/msg/${id}`)).json
    assert.deepEqual([message.payload, message.tags, message.channels], [{ expired: true }, ['t'], ['c2']])
    const attempts = (await s.ask('GET', `/app/a/attempt/msg/${id}`)).json.data
    assert.equal(attempts.length, 2)
    for (const attempt of attempts) assert.notEqual(attempt.response, '', 'the answers stay')
    const again = await s.ask('POST', `/app/a/msg/${id}/endpoint/two/resend`)
    assert.deepEqual([again.status, again.json.code], [400, 'missing_payload'])
    assert.match(JSON.stringify(again.json), /erased when all deliveries .* had succeeded \(eraseDelivered/)
    assert.equal((await s.ask('GET', `/app/a/msg/${id}/endpoint/two/why`)).json.reason, 'delivered')
  })
})

describe('the attempts at an endpoint', () => {
  test('are listed latest first, page by page in both directions, also when they began together', async () => {
    const s = await scene()
    for (let i = 0; i < 5; i++) await s.publish()
    await s.settle('one', { state: 'waiting', waitMs: 0 })
    await s.settle('one', { state: 'delivered' }, {}, 1)
    const all = await s.ids('/app/a/attempt/endpoint/one')
    assert.equal(new Set(all).size, 10)
    const { there, back } = await walk(s, '/app/a/attempt/endpoint/one?limit=3')
    assert.deepEqual(there, all)
    assert.deepEqual(back, all.slice(0, 9))
    assert.deepEqual(await s.ids('/app/a/attempt/endpoint/one?order=ascending'), all.toReversed())
    assert.equal((await s.ids('/app/a/attempt/endpoint/one?status=0')).length, 5)
    assert.equal((await s.ids('/app/a/attempt/endpoint/one?status_code_class=500')).length, 5)
    assert.deepEqual(await s.ids('/app/a/attempt/endpoint/one?event_types=y'), [])
    assert.equal((await s.ask('GET', '/app/a/attempt/endpoint/one?iterator=1.2')).status, 422)
    assert.equal((await s.ask('GET', '/app/b/attempt/endpoint/one')).status, 404)
  })

  test('come with their messages when asked', async () => {
    const s = await scene()
    const id = await s.publish()
    await s.settle('one', { state: 'delivered' })
    const [attempt] = (await s.ask('GET', '/app/a/attempt/endpoint/one?with_msg=true')).json.data
    assert.deepEqual([attempt.msg.id, attempt.msg.payload, attempt.response], [id, { n: 1 }, 'fine'])
    const [bare] = (await s.ask('GET', '/app/a/attempt/endpoint/one?with_msg=true&with_content=false')).json.data
    assert.deepEqual([bare.msg.payload, bare.response], [{}, ''])
  })

  test('show each message once in the list of messages that were tried', async () => {
    const s = await scene()
    const [first, second] = [await s.publish(), await s.publish()]
    await s.settle('one', { state: 'waiting', waitMs: 0 })
    await s.settle('one', dead, {}, 1)
    assert.deepEqual((await s.ids('/app/a/endpoint/one/msg')).sort(), [first, second].sort())
    const { there } = await walk(s, '/app/a/endpoint/one/msg?limit=1')
    assert.deepEqual(there.sort(), [first, second].sort())
    await s.ask('POST', `/app/a/msg/${first}/endpoint/one/resend`)
    assert.deepEqual(await s.ids('/app/a/endpoint/one/msg?status=1'), [first])
    assert.deepEqual(await s.ids('/app/a/endpoint/one/msg?status=2'), [second])
  })

  test('are at endpoints that a message is listed with page by page, also one it was sent to only later', async () => {
    const s = await scene()
    const id = await s.publish({ channels: ['c2'] })
    const late = (await s.ask('POST', '/app/a/endpoint', { url: 'https://three.example.com/', uid: 'three' })).json
    const path = `/app/a/msg/${id}/endpoint`
    assert.equal((await s.ids(path)).length, 2)
    await s.ask('POST', `${path}/three/resend`)
    await s.settle('three', { state: 'delivered' }, {}, 2)
    const all = await s.ids(path)
    assert.deepEqual([all.length, all.at(-1)], [3, late.id])
    assert.deepEqual(await s.ids(`${path}?order=descending`), all.toReversed())
    const { there, back } = await walk(s, `${path}?limit=2`)
    assert.deepEqual([there, back], [all, all.slice(0, 2)])
    await s.ask('DELETE', '/app/a/endpoint/one')
    assert.deepEqual(await s.ids(path), all, 'a deleted endpoint stays')
    assert.equal((await s.ask('GET', `${path}?iterator=nonsense!`)).status, 422)
  })

  test('are got and expunged one by one, and the older paths still work', async () => {
    const s = await scene()
    const id = await s.publish({ channels: ['c2'] })
    await s.settle('one', { state: 'delivered' })
    await s.settle('two', dead)
    const [attempt] = await s.ids('/app/a/attempt/endpoint/two')
    const path = `/app/a/msg/${id}/attempt/${attempt}`
    assert.equal((await s.ask('GET', path)).json.response, 'oops')
    assert.equal((await s.ask('DELETE', `${path}/content`)).status, 204)
    assert.equal((await s.ask('GET', path)).json.response, 'EXPUNGED')
    assert.equal((await s.ask('GET', `/app/a/dead/${id}/two`)).json.response, 'EXPUNGED')
    assert.equal((await s.ids(`/app/a/msg/${id}/attempt`)).length, 2)
    assert.deepEqual(await s.ids(`/app/a/msg/${id}/endpoint/two/attempt`), [attempt])
    for (const unknown of ['nonsense', attempt?.replace(/.$/, '!'), `atmpt_${'0'.repeat(27)}`]) {
      assert.equal((await s.ask('GET', `/app/a/msg/${id}/attempt/${unknown}`)).status, 404)
    }
    assert.equal((await s.ask('GET', `/app/b/msg/${id}/attempt/${attempt}`)).status, 404)
  })
})

describe('sending again', () => {
  test('queues one delivery once, counts its attempts from 0 and marks them', async () => {
    const s = await scene()
    const id = await s.publish()
    await s.settle('one', dead)
    const resend = () => s.ask('POST', `/app/a/msg/${id}/endpoint/one/resend`)
    for (const answer of [await resend(), await resend()]) assert.deepEqual([answer.status, answer.json], [202, {}])
    assert.deepEqual(await s.store.counts(), { pending: 1, dead: 0, messages: 1, attempts: 1 })
    const [standing] = (await s.ask('GET', `/app/a/msg/${id}/endpoint`)).json.data
    assert.deepEqual([standing.status, standing.nextAttempt], [1, null])
    await s.settle('one', { state: 'delivered' }, {}, 2)
    const [attempt] = (await s.ask('GET', `/app/a/attempt/msg/${id}`)).json.data
    assert.deepEqual([attempt.triggerType, attempt.attempt, attempt.status], [1, 2, 0])
    assert.equal((await s.ask('POST', `/app/b/msg/${id}/endpoint/one/resend`)).status, 404)
    assert.equal((await s.ask('POST', `/app/a/msg/${id}/endpoint/three/resend`)).status, 404)
  })

  test('replays of failed, missed and filtered messages are tasks that report their progress', async () => {
    const s = await scene()
    await s.ask('POST', '/app', { name: 'Other', uid: 'other' })
    const id = await s.publish()
    await s.settle('one', dead)
    const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString()
    const since = daysAgo(14)
    for (const [path, type] of [
      ['recover', 'endpoint.recover'],
      ['replay-missing', 'endpoint.replay'],
      ['bulk-replay', 'endpoint.bulk-replay'],
    ]) {
      const started = await s.ask('POST', `/app/a/endpoint/one/${path}`, { since })
      assert.deepEqual([started.status, started.json.status, started.json.task], [202, 'running', type])
      await s.work()
      const task = (await s.ask('GET', `/api/v1/background-task/${started.json.id}`)).json
      assert.equal(task.status, 'finished')
      assert.equal(task.data.replayed, path === 'recover' ? 1 : 0)
      assert.deepEqual((await s.ask('GET', `/app/a/background-task/${started.json.id}`)).json, task)
      assert.equal((await s.ask('GET', `/app/other/background-task/${started.json.id}`)).status, 404)
      assert.ok(Date.parse(task.updatedAt) >= Date.parse(started.json.updatedAt))
    }
    assert.equal((await s.ask('GET', `/app/a/msg/${id}/endpoint/one/why`)).json.ahead, 0)
    const listed = async (query: string) => (await s.ask('GET', `/api/v1/background-task?${query}`)).json.data.length
    assert.deepEqual(
      [
        await listed(''),
        await listed('status=finished'),
        await listed('status=running'),
        await listed('task=endpoint.recover'),
      ],
      [3, 3, 0, 1],
    )
    const { there, back } = await walk(s, '/api/v1/background-task?limit=2')
    assert.deepEqual([there.length, back.length], [3, 2])
    for (const body of [{}, { since: 'x' }, { since, until: daysAgo(15) }, { since: daysAgo(15) }]) {
      assert.equal((await s.ask('POST', '/app/a/endpoint/one/recover', body)).status, 422)
    }
    assert.equal((await s.ask('POST', '/app/b/endpoint/one/recover', { since })).status, 404)
    assert.equal((await s.ask('GET', '/api/v1/background-task/nobody')).status, 404)
    assert.equal((await s.ask('GET', '/api/v1/background-task?task=nothing')).status, 422)
  })

  test('usage that names no application is refused', async () => {
    const s = await scene()
    const times = { since: '2020-01-01T00:00:00Z', until: '2030-01-01T00:00:00Z' }
    assert.equal((await s.ask('POST', '/api/v1/stats/usage/app', { ...times, appIds: ['nobody'] })).status, 422)
    const started = await s.ask('POST', '/api/v1/stats/usage/app', { ...times, appIds: ['a', 'nobody'] })
    assert.deepEqual([started.status, started.json.unresolvedAppIds], [202, ['nobody']])
  })
})

describe('dead letters', () => {
  async function withDead() {
    const s = await scene()
    const first = await s.publish({ channels: ['c2'], payload: { text: 'a\nb' } })
    const second = await s.publish({ eventType: 'y' })
    await s.settle('one', dead)
    await s.settle('two', { state: 'dead', reason: 'aged' }, { status: 0, code: 'timeout', response: null })
    return { s, first, second }
  }

  test('are listed by every filter and walked in both directions', async () => {
    const { s, first, second } = await withDead()
    assert.equal((await s.ids('/app/a/dead')).length, 3)
    assert.deepEqual(await s.ids('/app/a/dead?endpoint_id=two'), [first])
    assert.deepEqual(await s.ids('/app/a/dead?event_types=y'), [second])
    assert.deepEqual(await s.ids('/app/a/dead?reason=aged'), [first])
    assert.deepEqual(await s.ids('/app/a/dead?before=2020-01-01T00:00:00Z'), [])
    assert.equal((await s.ids('/app/a/dead?after=2020-01-01T00:00:00Z')).length, 3)
    const { there, back } = await walk(s, '/app/a/dead?limit=1')
    assert.deepEqual([there.length, back.length], [3, 2])
    assert.deepEqual(await s.ids('/app/b/dead'), [])
    assert.equal((await s.ask('GET', '/app/a/dead?reason=boredom')).status, 422)
    assert.equal((await s.ask('GET', '/app/a/dead?endpoint_id=nobody')).status, 404)
  })

  test('are shown with every attempt that led to them', async () => {
    const { s, first } = await withDead()
    const letter = (await s.ask('GET', `/app/a/dead/${first}/two`)).json
    assert.deepEqual(
      [letter.msgId, letter.reason, letter.attempts, letter.code, letter.response, letter.url],
      [first, 'aged', 1, 'timeout', null, 'https://two.example.com/'],
    )
    assert.deepEqual(
      letter.trail.map((attempt: { attempt: number; code: string }) => [attempt.attempt, attempt.code]),
      [[1, 'timeout']],
    )
    assert.equal((await s.ask('GET', `/app/b/dead/${first}/two`)).status, 404)
    assert.equal((await s.ask('GET', `/app/a/msg/${first}/endpoint/two/why`)).json.reason, 'dead')
  })

  test('are exported one a line with their payloads', async () => {
    const { s, first } = await withDead()
    const exported = await s.ask('GET', '/app/a/dead/export?endpoint_id=two')
    assert.match(String(exported.headers['content-type']), /^application\/jsonl/)
    const lines = exported.text.trimEnd().split('\n')
    assert.equal(lines.length, 1)
    const line = JSON.parse(lines[0] as string)
    assert.deepEqual([line.msgId, line.payload, line.reason], [first, { text: 'a\nb' }, 'aged'])
    assert.equal((await s.ask('GET', '/app/a/dead/export')).text.trimEnd().split('\n').length, 3)
    assert.equal((await s.ask('GET', '/app/b/dead/export')).text, '')
  })

  test('are exported whole, also when there are more than are read at a time', async () => {
    const s = await scene()
    for (let i = 0; i < 120; i++) await s.publish({ eventId: `e${i}` })
    await s.settle('one', dead)
    const lines = (await s.ask('GET', '/app/a/dead/export')).text.trimEnd().split('\n')
    const events = new Set(lines.map((line) => JSON.parse(line).eventId))
    assert.deepEqual([lines.length, events.size], [120, 120])
  })

  test('a payload with line breaks between its values is still one line', async () => {
    const s = await scene()
    await s.ask('POST', '/app/a/msg', '{"eventType":"x","payload":{\r\n "n": 1.0,\n "t": "é" }}')
    await s.settle('one', dead)
    const { text } = await s.ask('GET', '/app/a/dead/export')
    assert.equal(text.split('\n').length, 2)
    assert.ok(text.includes('"n": 1.0,  "t": "é" }'), text)
  })

  test('are replayed one, some or all, and purged, as tasks', async () => {
    const { s, first } = await withDead()
    const one = await s.ask('POST', '/app/a/dead/replay', { msgId: first, endpointId: 'two' })
    assert.deepEqual([one.status, one.json.task], [202, 'dead.replay'])
    await s.work()
    assert.deepEqual((await s.ask('GET', `/api/v1/background-task/${one.json.id}`)).json.data, {
      scanned: 1,
      replayed: 1,
    })
    await s.ask('POST', '/app/a/dead/replay', { eventTypes: ['y'] })
    await s.work()
    assert.deepEqual(await s.ids('/app/a/dead'), [first])
    const purge = await s.ask('DELETE', '/app/a/dead?reason=exhausted')
    assert.deepEqual([purge.status, purge.json.task], [202, 'dead.purge'])
    await s.work()
    assert.deepEqual(await s.store.counts(), { pending: 2, dead: 0, messages: 2, attempts: 3 })
    assert.equal((await s.ask('POST', '/app/a/dead/replay', { msgId: 'nobody' })).status, 404)
    assert.equal((await s.ask('POST', '/app/b/dead/replay', { msgId: first })).status, 404)
    assert.equal((await s.ask('POST', '/app/a/dead/replay', { reason: 'boredom' })).status, 422)
    assert.equal((await s.ask('POST', '/app/a/dead/replay', {})).status, 202)
  })
})

describe('a lane', () => {
  test('tells what waits and what it waits for', async () => {
    const s = await scene()
    const id = await s.publish()
    const lane = async () => (await s.ask('GET', '/app/a/endpoint/one/lane')).json
    const why = async () => (await s.ask('GET', `/app/a/msg/${id}/endpoint/one/why`)).json
    const idle = await lane()
    assert.deepEqual([idle.owner, idle.waiting.fresh, idle.waiting.isExact, idle.paused], [null, 1, true, false])
    assert.equal((await why()).reason, 'waiting_for_worker')

    await s.store.claim(s.worker, 10)
    assert.equal((await lane()).owner.worker, s.worker)
    assert.equal((await why()).reason, 'sending')
    await s.publish()
    const second = (await s.ids('/app/a/msg'))[0]
    const behind = (await s.ask('GET', `/app/a/msg/${second}/endpoint/one/why`)).json
    assert.deepEqual([behind.reason, behind.ahead, behind.isAheadExact], ['behind_others', 1, true])

    await s.settle('one', { state: 'waiting', waitMs: 60_000 })
    const retry = await why()
    assert.deepEqual([retry.reason, retry.attempts, retry.lastAttempt.status], ['waiting_for_retry', 1, 2])
    assert.equal(retry.expectedAt, (await s.ask('GET', `/app/a/msg/${id}/endpoint`)).json.data[0].nextAttempt)
    assert.equal((await lane()).waiting.timed, 2)

    const [held] = (await s.store.claim(s.worker, 10, true)).lanes
    assert.ok(held)
    await s.store.settle(s.worker, [], {
      holds: [{ endpoint: held.endpoint.key, holdMs: 60_000 }],
      disable: [],
      health: [],
    })
    assert.equal((await why()).reason, 'held')
    assert.equal((await lane()).heldUntil, (await why()).expectedAt)
    await s.ask('POST', '/app/a/endpoint/one/pause')
    assert.deepEqual([(await why()).reason, (await lane()).paused], ['paused', true])
    await s.ask('PATCH', '/app/a/endpoint/one', { disabled: true })
    assert.deepEqual([(await why()).reason, (await lane()).disabledReason], ['disabled', 'operator'])
    assert.equal((await s.ask('GET', '/app/b/endpoint/one/lane')).status, 404)
    assert.equal((await s.ask('GET', `/app/b/msg/${id}/endpoint/one/why`)).status, 404)
    assert.equal((await s.ask('GET', `/app/a/msg/${id}/endpoint/two/why`)).json.reason, 'not_subscribed')
  })
})
