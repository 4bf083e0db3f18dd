import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { encodeId, firstKeyAt } from '../../src/domain/ids.ts'
import { deadReasons } from '../../src/domain/judge.ts'
import { TaskRunner } from '../../src/engine/worker-jobs.ts'
import { oneLine } from '../../src/features/dead-lines/service.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { systemRandomText } from '../../src/runtime/random.ts'
import { anyCharacter } from '../any-character.ts'
import { type Api, openApi } from './api.ts'

interface Scene extends Api {
  /** Publishes a message that dies at the endpoint `one`; answers its id. */
  die(publish: () => Promise<{ json: { id: string }; status: number; text: string }>): Promise<string>
  lines(path?: string): Promise<Record<string, unknown>[]>
  purge(): Promise<void>
  import(text: string | Buffer, query?: string): ReturnType<Api['ask']>
  work(): Promise<void>
}

async function scene(): Promise<Scene> {
  const api = await openApi()
  const { ask, store } = api
  await ask('POST', '/app', { name: 'A', uid: 'a' })
  await ask('POST', '/app', { name: 'B', uid: 'b' })
  for (const app of ['a', 'b']) await ask('POST', `/app/${app}/endpoint`, { url: 'https://example.com/', uid: 'one' })
  const worker = await store.join({ leaseMs: 60_000, description: 'test' })
  const work = async () => {
    const runner = new TaskRunner(store, systemClock)
    while (await runner.step());
  }
  return {
    ...api,
    work,
    async die(publish) {
      const sent = await publish()
      assert.equal(sent.status, 202, sent.text)
      for (const ref of ['a', 'b']) {
        const app = await store.findApplication(ref)
        const endpoint = await store.findEndpoint(app?.key ?? 0, 'one')
        assert(app && endpoint)
        const [due] = await store.readDue([{ endpoint: endpoint.key, class: 0, after: null, limit: 10 }])
        const settlements = (due?.rows ?? []).map((row) => ({
          endpoint: endpoint.key,
          app: app.key,
          row,
          attempt: {
            id: encodeId('atmpt', row.message, systemRandomText),
            startedAgoMs: () => 5,
            durationMs: 4,
            status: 500,
            code: 'refused' as const,
            error: 'the receiver answered 500',
            response: new Uint8Array([0xff, 0x00]),
          },
          verdict: { state: 'dead', reason: 'exhausted' } as const,
        }))
        await store.settle(worker, settlements, { holds: [], disable: [], health: [] })
      }
      return sent.json.id
    },
    async lines(path = '/app/a/dead/export') {
      const { text } = await ask('GET', path)
      return text
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line))
    },
    async purge() {
      await ask('DELETE', '/app/a/dead')
      await work()
      assert.deepEqual((await ask('GET', '/app/a/dead')).json.data, [])
    },
    import(text, query = '') {
      return ask('POST', `/app/a/dead/import${query}`, text, { 'content-type': 'application/jsonl' })
    },
  }
}

const bodies: [string, string, Buffer][] = [
  ['numbers that JavaScript cannot hold', 'application/json', Buffer.from('{ "n" : 1.0,"big":9007199254740993}')],
  ['line breaks', 'application/json', Buffer.from('{\r\n "n": 1.0,\n "t": "é" }')],
  ['bytes that are no text', 'image/png', Buffer.from([0x89, 0x50, 0, 0xff, 0x0a])],
  ['JSON that is no object', 'application/json', Buffer.from('[1, 2]')],
  ['a key twice', 'application/json', Buffer.from('{"a":1,"a":2}')],
  [
    'an object like ours for what is no JSON',
    'text/plain',
    Buffer.from('{"contentType":"text/plain","base64":"eA=="}'),
  ],
  ['nothing', 'text/plain', Buffer.alloc(0)],
]

describe('dead letters that are exported and imported', () => {
  test('take up one line each, and a payload without line breaks is not copied for it', () => {
    const plain = Buffer.alloc(8, '{"a": 1}')
    assert.equal(oneLine(plain).buffer, plain.buffer)
    assert.equal(oneLine(plain.subarray(1, 4)).toString(), '"a"')
    const broken = Buffer.from('{\r\n"a":\n1}\n')
    assert.equal(oneLine(broken).toString(), '{  "a": 1} ')
    assert.equal(broken.toString(), '{\r\n"a":\n1}\n', 'the payload itself stays')
  })

  for (const [what, contentType, body] of bodies) {
    test(`come back with the same bytes: ${what}`, async () => {
      const s = await scene()
      const query = '?event_type=x.y&event_id=e1&channels=c1&tags=t1'
      const id = await s.die(() => s.ask('POST', `/app/a/msg/raw${query}`, body, { 'content-type': contentType }))
      const before = (await s.ask('GET', `/app/a/dead/${id}/one`)).json
      const { text } = await s.ask('GET', '/app/a/dead/export')
      assert.equal(text.split('\n').length, 2)
      await s.purge()
      // As if the message had been deleted, too.
      const { store } = s
      const app = await store.findApplication('a')
      const key = (await store.findMessage(app?.key ?? 0, id))?.key ?? 0
      const other = await scene()
      const imported = await other.import(text)
      assert.deepEqual([imported.status, imported.json], [200, { checked: 1, imported: 1, unchanged: 0, skipped: [] }])
      const there = await other.store.findApplication('a')
      const message = await other.store.findMessage(there?.key ?? 0, id)
      assert(message)
      assert.deepEqual(Buffer.from(message.body), body)
      assert.deepEqual(
        [message.key, message.contentType, message.eventType, message.eventId, message.channels, message.tags],
        [key, contentType, 'x.y', 'e1', ['c1'], ['t1']],
      )
      const after = (await other.ask('GET', `/app/a/dead/${id}/one`)).json
      for (const field of ['msgId', 'reason', 'attempts', 'diedAt', 'publishedAt', 'code', 'error', 'response']) {
        assert.deepEqual(after[field], before[field], field)
      }
      const [letter] = await other.store.loadDead(await other.store.listDead(there?.key ?? 0, wholeRange))
      assert.deepEqual([...(letter?.response ?? [])], [0xff, 0])
      assert.deepEqual((await other.import(text)).json.unchanged, 1)
      // Both exports have the same content, except for the endpoint that they name.
      const ours = JSON.parse(text)
      const [theirs] = await other.lines()
      assert.deepEqual({ ...theirs, appId: '', endpointId: '' }, { ...ours, appId: '', endpointId: '' })
    })
  }

  test('come back to the message that is still here, and are sent again under its id', async () => {
    const s = await scene()
    const id = await s.die(() => s.ask('POST', '/app/a/msg', { eventType: 'x', payload: { n: 1 } }))
    const { text } = await s.ask('GET', '/app/a/dead/export')
    await s.purge()
    assert.equal((await s.import(text)).json.imported, 1)
    assert.equal((await s.ask('GET', `/app/a/dead/${id}/one`)).json.trail.length, 1)
    await s.ask('POST', '/app/a/dead/replay', { perSecond: 1000 })
    await s.work()
    assert.equal((await s.import(text)).json.unchanged, 1)
    assert.deepEqual(await s.store.counts(), { pending: 1, dead: 0, messages: 1, attempts: 1 })
  })

  test('are refused together when one line is bad, each problem with its line, or skipped if so asked', async () => {
    const s = await scene()
    await s.die(() => s.ask('POST', '/app/a/msg', { eventType: 'x', payload: { n: 1 } }))
    const [good] = await s.lines()
    await s.purge()
    const reasons = deadReasons
      .map((reason) => `"${reason}"`)
      .join(', ')
      .replace(/, (?=[^,]*$)/, ' or ')
    const bad: [string, unknown][] = [
      ['is required', { ...good, msgId: undefined }],
      ['is not the id of a message', { ...good, msgId: 'msg_nonsense' }],
      [
        'is from the future: import it later',
        { ...good, msgId: encodeId('msg', firstKeyAt(systemClock.now() + 60_000), systemRandomText) },
      ],
      ['is in the future', { ...good, diedAt: '2999-01-01T00:00:00Z' }],
      ['is not an instant', { ...good, diedAt: '2026-02-31T99:00:00Z' }],
      ['is no endpoint of the application', { ...good, endpointId: 'nobody', endpointUid: null }],
      [`must be ${reasons}`, { ...good, reason: 'boredom' }],
      ['is not base64', { ...good, bodyBase64: '###' }],
      ['is a reserved header', { ...good, headers: { 'webhook-id': 'x' } }],
      ['must not contain U+0000 or lone surrogates', { ...good, error: '\0' }],
      ...['a\r\nx-injected: 1', 'a\n', '\r', 'ä', ''].map((signature): [string, unknown] => [
        'has a signature that is no header value of visible ASCII',
        { ...good, variant: { bodyBase64: null, signature } },
      ]),
    ]
    const text = [
      JSON.stringify(good),
      '',
      ...bad.map(([, line]) => JSON.stringify(line)),
      '{"msgId":',
      '[]',
      Buffer.from([0xff, 0x0a]).toString('latin1'),
    ].join('\r\n')
    const refused = await s.import(text, '?first_line=100')
    assert.equal(refused.status, 422)
    const said = refused.json.detail as { loc: string[]; msg: string }[]
    for (const [i, [message]] of bad.entries()) {
      const found = said.filter(({ loc }) => loc[1] === String(102 + i)).map(({ msg }) => msg)
      assert.ok(found.includes(message), `${message}: ${JSON.stringify(found)}`)
    }
    assert.equal((await s.store.counts()).dead, 0)
    const trial = await s.import(text, '?skip_bad=true&dry_run=true')
    assert.deepEqual([trial.json.checked, trial.json.imported, trial.json.skipped.length], [1, 0, bad.length + 3])
    assert.equal((await s.store.counts()).dead, 0)
    const skipping = await s.import(text, '?skip_bad=true')
    assert.deepEqual([skipping.status, skipping.json.imported], [200, 1])
    assert.deepEqual(
      skipping.json.skipped.map(({ line }: { line: number }) => line),
      [...bad.keys(), bad.length, bad.length + 1, bad.length + 2].map((i) => i + 3),
    )
    assert.equal((await s.store.counts()).dead, 1)
  })

  test('whose message is erased or gone cannot come back without it', async () => {
    const s = await scene()
    const id = await s.die(() => s.ask('POST', '/app/a/msg', { eventType: 'x', payload: { secret: 1 } }))
    await s.ask('DELETE', `/app/a/msg/${id}/content`)
    const [line] = await s.lines()
    assert.deepEqual([line?.payload, line?.bodyBase64], [undefined, null])
    const other = await scene()
    const refused = await other.import(JSON.stringify(line))
    assert.equal(refused.status, 422)
    assert.match(refused.text, /is missing, and so is the message/)
    // Here it is still known, and stays erased.
    await s.purge()
    assert.equal((await s.import(JSON.stringify({ ...line, payload: { secret: 1 } }))).json.imported, 1)
    assert.ok(!(await s.ask('GET', '/app/a/dead/export')).text.includes('secret'))
  })

  test('go to the endpoint that is named for all of them', async () => {
    const s = await scene()
    const id = await s.die(() => s.ask('POST', '/app/b/msg', { eventType: 'x', payload: { n: 1 } }))
    const { text } = await s.ask('GET', '/app/b/dead/export')
    const foreign = text.replaceAll('"endpointUid":"one"', '"endpointUid":null')
    assert.equal((await s.import(foreign)).status, 422)
    assert.equal((await s.import(foreign, '?endpoint_id=nobody')).status, 404)
    assert.equal((await s.import(foreign, '?endpoint_id=one')).json.imported, 1)
    // The message is another application's, which keeps its id.
    const [mine] = await s.lines()
    assert.notEqual(mine?.msgId, id)
    assert.equal(String(mine?.msgId).slice(-18), id.slice(-18))
    assert.equal((await s.import(foreign, '?endpoint_id=one')).json.unchanged, 1)
  })

  test('are refused or taken in, whatever a line says, and never a fault of ours', async () => {
    const s = await scene()
    await s.die(() => s.ask('POST', '/app/a/msg', { eventType: 'x', payload: { n: 1 }, headers: { 'x-a': '1' } }))
    const [good = {}] = await s.lines()
    await s.purge()
    const fields = fc.constantFrom(...Object.keys(good), '__proto__')
    const values = fc.oneof(fc.jsonValue(), fc.constantFrom(...Object.values(good)), fc.string({ unit: anyCharacter }))
    const changed = fc
      .array(fc.tuple(fields, values), { maxLength: 3 })
      .map((changes) => Buffer.from(JSON.stringify({ ...good, ...Object.fromEntries(changes) })))
    const garbled = fc.tuple(changed, fc.nat(), fc.nat(255)).map(([line, at, byte]) => {
      const copy = Buffer.from(line)
      copy[at % copy.length] = byte
      return copy
    })
    let taken = 0
    await fc.assert(
      fc.asyncProperty(fc.oneof(changed, garbled), async (line) => {
        const { status, text } = await s.import(line)
        assert.ok([200, 400, 422].includes(status), text)
        if (status === 200) taken++
      }),
      { numRuns: 1000, seed: 20_261_115, endOnFailure: true },
    )
    assert.ok(taken > 20, `${taken} of 1000 were taken`)
    // All that was taken in can be taken out again.
    for (const line of await s.lines()) assert.equal((await s.import(JSON.stringify(line))).status, 200)
  })

  test('are taken in up to a number of lines, as lines and nothing else', async () => {
    const s = await scene()
    assert.equal((await s.import('\n'.repeat(501))).status, 422)
    assert.deepEqual((await s.import('\n'.repeat(500))).json.checked, 0)
    const asJson = await s.ask('POST', '/app/a/dead/import', {})
    assert.deepEqual([asJson.status, asJson.json.code], [415, 'unsupported_media_type'])
  })
})

describe('the dead letters of all applications', () => {
  test('are listed, exported, replayed and purged together', async () => {
    const s = await scene()
    const ids = []
    for (const app of ['a', 'b']) {
      ids.push(await s.die(() => s.ask('POST', `/app/${app}/msg`, { eventType: `of.${app}`, payload: {} })))
    }
    const apps = (await s.ask('GET', '/app?order=ascending')).json.data.map(({ id }: { id: string }) => id)
    const { data } = (await s.ask('GET', '/api/v1/dead?order=ascending')).json
    assert.deepEqual(
      data.map(({ appId, msgId }: { appId: string; msgId: string }) => [appId, msgId]),
      [
        [apps[0], ids[0]],
        [apps[1], ids[1]],
      ],
    )
    assert.deepEqual(
      (await s.lines('/api/v1/dead/export')).map(({ appId }) => appId),
      apps,
    )
    assert.equal((await s.ask('GET', '/api/v1/dead?event_types=of.b')).json.data.length, 1)
    assert.equal((await s.ask('GET', '/api/v1/dead?event_types=of.*')).json.data.length, 2, 'a group of event types')
    await s.ask('DELETE', '/api/v1/dead?event_types=of.a')
    await s.work()
    await s.ask('POST', '/api/v1/dead/replay', {})
    await s.work()
    assert.deepEqual(await s.store.counts(), { pending: 1, dead: 0, messages: 2, attempts: 2 })
  })
})

describe('the contents of messages', () => {
  test('are erased, those that are named or all of an application', async () => {
    const s = await scene()
    const publish = async (app: string, eventId: string) =>
      (await s.ask('POST', `/app/${app}/msg`, { eventType: 'x', eventId, payload: { secret: eventId } })).json.id
    const first = await publish('a', 'batch')
    await publish('a', 'e2')
    const foreign = await publish('b', 'e3')
    const bulk = await s.ask('POST', '/app/a/msg/bulk-expunge', { ids: [first, foreign, 'nobody', '\u0007'] })
    assert.deepEqual(bulk.json.results, {
      [first]: 'expunged',
      [foreign]: 'not-found',
      nobody: 'not-found',
      '\u0007': 'not-found',
    })
    assert.deepEqual((await s.ask('POST', '/app/a/msg/bulk-expunge', {})).json, { results: {} })
    const payload = async (path: string) => (await s.ask('GET', path)).json.payload
    // Its eventId is also a word of the API's.
    assert.deepEqual(await payload('/app/a/msg/batch'), { expired: true })
    assert.deepEqual(await payload('/app/a/msg/e2'), { secret: 'e2' })
    for (let i = 0; i < 45; i++) await publish('a', `more${i}`)
    const { status, json } = await s.ask('POST', '/app/a/msg/expunge-all-contents')
    assert.deepEqual([status, json.task], [202, 'application.purge_content'])
    await s.work()
    const task = (await s.ask('GET', `/api/v1/background-task/${json.id}`)).json
    assert.deepEqual([task.status, task.data], ['finished', { scanned: 47, messagesPurged: 46, total: 47 }])
    assert.deepEqual(await payload('/app/a/msg/e2'), { expired: true })
    assert.deepEqual(await payload('/app/b/msg/e3'), { secret: 'e3' })
  })
})

describe('a selection of dead letters', () => {
  async function dead(s: Scene, count: number, eventType = 'x') {
    const ids: string[] = []
    for (let i = 0; i < count; i++) ids.push(await s.die(() => s.ask('POST', '/app/a/msg', { eventType, payload: {} })))
    return ids
  }
  const taskOf = async (s: Scene, id: string) => (await s.ask('GET', `/api/v1/background-task/${id}`)).json

  test('is counted by its filter, up to the instant just after the newest of them died', async () => {
    const s = await scene()
    await dead(s, 3)
    await dead(s, 2, 'y')
    const count = async (query = '', path = '/app/a/dead') => (await s.ask('GET', `${path}/count${query}`)).json
    const { before, ...all } = await count()
    assert.deepEqual(all, { count: 5, more: false })
    const newest = (await s.ask('GET', '/app/a/dead?limit=1')).json.data[0].diedAt
    assert.equal(Date.parse(before), Date.parse(newest) + 1)
    assert.equal((await count(`?before=${before}`)).count, 5)
    assert.equal((await count(`?before=${newest}`)).count < 5, true)
    assert.equal((await count('?event_types=y')).count, 2)
    assert.equal((await count('?reason=exhausted&endpoint_id=one')).count, 5)
    assert.equal((await count('?reason=gone')).count, 0)
    assert.equal((await count('', '/api/v1/dead')).count, 5)
    assert.equal((await count('', '/app/b/dead')).count, 0)
    assert.equal((await s.ask('GET', '/app/a/dead/count?msg_id=x')).status, 422)
  })

  test('is replayed once, however often the request is repeated under its key', async () => {
    const s = await scene()
    const ids = await dead(s, 4)
    const { data } = (await s.ask('GET', '/app/a/dead')).json
    const { before } = (await s.ask('GET', '/app/a/dead/count')).json
    const letters = data
      .filter(({ msgId }: { msgId: string }) => msgId !== ids[3])
      .map(({ msgId, endpointId }: Record<string, string>) => ({ msgId, endpointId }))
    const post = (key: string) => s.ask('POST', '/app/a/dead/replay', { letters, before }, { 'idempotency-key': key })
    const [first, second] = [await post('one'), await post('one')]
    assert.deepEqual([first.status, second.status, second.json.id], [202, 202, first.json.id])
    await s.work()
    const { state, data: done } = await taskOf(s, first.json.id)
    assert.deepEqual([state, done], ['finished', { scanned: 3, replayed: 3, total: 3 }])
    assert.equal((await s.store.counts()).dead, 1)
    // A new key is a new request; what it names is gone, or died later than it says.
    const third = await post('two')
    await s.work()
    assert.deepEqual((await taskOf(s, third.json.id)).data, { scanned: 3, replayed: 0, total: 3 })
  })

  test('names letters by id, without other fields that choose, and not those of another application', async () => {
    const s = await scene()
    await dead(s, 1)
    const [{ msgId, endpointId }] = (await s.ask('GET', '/app/a/dead')).json.data
    const post = (body: object, app = 'a') => s.ask('POST', `/app/${app}/dead/replay`, body)
    for (const body of [
      { letters: [] },
      { letters: [{ msgId, endpointId: 'one' }] },
      { letters: [{ msgId: 'msg_x', endpointId }] },
      { letters: [{ msgId, endpointId }], endpointId: 'one' },
      { letters: [{ msgId, endpointId }], eventTypes: ['x'] },
      { letters: Array.from({ length: 1001 }, () => ({ msgId: 'm', endpointId: 'e' })) },
    ]) {
      assert.equal((await post(body)).status, 422, JSON.stringify(body).slice(0, 100))
    }
    const { json } = await post({ letters: [{ msgId, endpointId }] }, 'b')
    await s.work()
    assert.deepEqual((await taskOf(s, json.id)).data, { scanned: 1, replayed: 0, total: 1 })
    assert.equal((await s.store.counts()).dead, 1)
  })

  test('of an endpoint is counted by the time of the messages', async () => {
    const s = await scene()
    await dead(s, 2)
    await s.ask('POST', '/app/a/msg', { eventType: 'x', payload: {} })
    const ask = async (since: number) =>
      (await s.ask('GET', `/app/a/endpoint/one/replayable?since=${new Date(since).toISOString()}`)).json
    const { until, ...counts } = await ask(Date.now() - 60_000)
    assert.deepEqual(counts, { failed: 2, failedMore: false, messages: 3, messagesMore: false })
    assert.ok(Date.parse(until) >= Date.now() - 1000)
    const { failed, messages } = await ask(Date.now() + 500)
    assert.deepEqual([failed, messages], [0, 0])
  })
})

describe('a background task', () => {
  test('is paused, resumed and cancelled, and says so in words that Svix knows, too', async () => {
    const s = await scene()
    for (let i = 0; i < 3; i++) {
      await s.die(() => s.ask('POST', '/app/a/msg', { eventType: 'x', payload: {} }))
    }
    const { id } = (await s.ask('POST', '/app/a/dead/replay', { perSecond: 1 })).json
    const order = async (word: string) => {
      const { status, json } = await s.ask('POST', `/api/v1/background-task/${id}/${word}`)
      return [status, json.status, json.state ?? json.code]
    }
    await s.work()
    const task = (await s.ask('GET', `/api/v1/background-task/${id}`)).json
    assert.deepEqual([task.state, task.perSecond, task.data], ['running', 1, { scanned: 1, replayed: 1, total: 3 }])
    assert.deepEqual(await order('pause'), [200, 'running', 'paused'])
    assert.deepEqual(await order('pause'), [200, 'running', 'paused'])
    const listed = async (query: string) => (await s.ask('GET', `/api/v1/background-task?${query}`)).json.data.length
    assert.deepEqual(
      [await listed('state=paused'), await listed('state=running'), await listed('status=running')],
      [1, 0, 1],
    )
    assert.deepEqual(await order('resume'), [200, 'running', 'running'])
    assert.deepEqual(await order('cancel'), [200, 'finished', 'cancelled'])
    assert.deepEqual(await order('resume'), [409, 409, 'conflict'])
    await s.work()
    assert.equal((await s.store.counts()).dead, 2)
    assert.equal((await s.ask('POST', '/api/v1/background-task/qtask_nobody/pause')).status, 404)
    assert.equal((await s.ask('POST', '/app/a/dead/replay', { perSecond: 0 })).status, 422)
    const span = { since: new Date(Date.now() - 3_600_000).toISOString(), perSecond: 7 }
    for (const verb of ['recover', 'replay-missing', 'bulk-replay']) {
      const started = (await s.ask('POST', `/app/a/endpoint/one/${verb}`, span)).json
      assert.equal((await s.ask('GET', `/api/v1/background-task/${started.id}`)).json.perSecond, 7, verb)
    }
  })
})

const wholeRange = {
  endpoint: null,
  from: 0,
  until: Number.MAX_SAFE_INTEGER,
  after: null,
  order: 'ascending',
  limit: 10,
} as const
