import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import pg from 'pg'
import { openParts } from '../../src/compose/parts.ts'
import { inProcess, type Request } from '../../src/operations/in-process.ts'
import { configOf } from '../../src/runtime/config.ts'
import { openLog } from '../../src/runtime/log.ts'
import { testEncryptionKey } from '../store/test-vault.ts'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { Ledger } from './ledger.ts'
import { Load } from './load.ts'
import { mostOpen, worstExcess } from './oracles.ts'
import { type Place, pendingCount, postgresPlace } from './place.ts'
import { apiKey, Program } from './program.ts'
import { Receiver } from './receiver.ts'

/** A word that only payloads of a region have. */
const words = { eu: 'payload-of-eu', us: 'payload-of-us' } as const
type RegionName = keyof typeof words

const wideEndpoints = 1001

const payloadOf = (region: RegionName) => ({ word: words[region], person: 'ann' })

interface Erasure {
  readonly state: string
  readonly report: { readonly erased: { readonly without: number; readonly messages: number } }
}

/** Which worker's statements returned which words; each worker's connections carry its name. */
function watchStatements(t: TestContext): Map<string, Set<string>> {
  const read = new Map<string, Set<string>>()
  const { query } = pg.Client.prototype
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
    const answer = (query as (...args: unknown[]) => unknown).apply(this, args)
    const { connectionParameters } = this as unknown as { connectionParameters: { application_name: string } }
    const name = connectionParameters.application_name
    if (!(answer instanceof Promise)) return answer
    return answer.then((result: pg.QueryResult | pg.QueryResult[]) => {
      const rows = [result].flat().flatMap((each) => each?.rows ?? [])
      const text = rows.map((row) => Object.values(row).map(asText).join()).join()
      for (const word of Object.values(words)) {
        if (text.includes(word)) read.set(name, (read.get(name) ?? new Set()).add(word))
      }
      return result
    })
  } as typeof query
  atEnd(t, () => {
    pg.Client.prototype.query = query
  })
  return read
}

function asText(value: unknown): string {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('latin1')
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** A process of this program, within this one, whose connections carry its name. */
async function processOf(t: TestContext, place: Place, name: string, settings: object = {}) {
  const store = `${place.store}${place.store.includes('?') ? '&' : '?'}application_name=${name}`
  const config = configOf({
    store,
    encryptionKey: testEncryptionKey,
    allowNetworks: ['127.0.0.0/8'],
    logLevel: 'silent',
    minRetryWait: '0s',
    ...settings,
  })
  const parts = await openParts(config, openLog(config))
  atEnd(t, () => parts.store.close())
  return { ask: inProcess(parts.services()) as Request, parts }
}

test('a worker runs no statement that returns a payload of another region', async (t) => {
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-regions-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const read = watchStatements(t)
  const fileOf = (region: RegionName) => join(folder, `${region}.jsonl`)
  // The first of them leads, and does the jobs of the whole store.
  for (const region of ['us', 'eu'] as const) {
    const { parts } = await processOf(t, place, region, { region, deadFile: fileOf(region) })
    const delivering = await parts.startDelivering(`a worker of ${region}`)
    atEnd(t, () => delivering.stop(0))
  }
  const { ask } = await processOf(t, place, 'api')
  const retry = { waits: { kind: 'list', ms: [1] }, jitter: 'none' }
  for (const region of ['eu', 'us'] as const) {
    const app = `/app/${region}`
    receiver.behave(`/${region}/dead`, () => ({ status: 500 }))
    await ask('POST', '/app', { name: region, uid: region, region, subjectPointers: ['/person'] })
    const endpoints: [string, object][] = [
      ['plain', {}],
      ['shaped', { shape: { keep: ['/word'] } }],
      ['merged', { coalesce: { windowMs: 2000 } }],
      ['ordered', { order: 'fifo' }],
      ['dead', { retry }],
    ]
    for (const [uid, fields] of endpoints) {
      await ask('POST', `${app}/endpoint`, { url: `${receiver.url}/${region}/${uid}`, uid, ...fields })
    }
    const payload = payloadOf(region)
    for (let n = 0; n < 5; n++) await ask('POST', `${app}/msg`, { eventType: 'a.b', payload })
    // Made later, so that a task finds what it missed, by a filter over stored payloads.
    const filter = `payload.word == '${words[region]}'`
    await ask('POST', `${app}/endpoint`, { url: `${receiver.url}/${region}/late`, uid: 'late', filter })
    await ask('POST', `${app}/endpoint/late/replay-missing`, { since: '2020-01-01T00:00:00Z' })
    await ask('POST', `${app}/schedule`, {
      ...{ uid: 'tick', cron: '0 0 1 1 *', missed: 'once' },
      ...{ eventType: 'tick', payload },
    })
  }
  // The tick of the last new year was missed.
  const newYear = Date.UTC(new Date().getUTCFullYear(), 0, 1)
  await place.query(`update schedule set reached_at = ${newYear - 1}, next_at = ${newYear}, due_at = ${newYear}`)

  const arrived = (path: string) => receiver.at(path).length
  await eventually('all is delivered, by a schedule and a replay too', () =>
    ['eu', 'us'].every(
      (region) =>
        arrived(`/${region}/plain`) >= 6 && arrived(`/${region}/shaped`) >= 6 && arrived(`/${region}/late`) >= 6,
    ),
  )
  await eventually('nothing waits', async () => (await pendingCount(place)) === 0)
  for (const region of ['eu', 'us'] as const) {
    const lines = () => (existsSync(fileOf(region)) ? readFileSync(fileOf(region), 'utf8') : '')
    await eventually(`the dead letters of ${region} are in its file`, () => lines().split(words[region]).length > 6)
    await ask('POST', `/app/${region}/dead/replay`, {})
    await eventually('they were tried again', () => arrived(`/${region}/dead`) > 12)
  }
  await eventually('nothing waits again', async () => (await pendingCount(place)) === 0)

  // A message for very many endpoints is expanded, and rewritten in steps when its person is erased.
  await place.query(`
    with made as (
      insert into endpoint (key, id, app, url, description, disabled, paused, event_types, secrets, headers, metadata,
                            throttle_period_s, created_at, updated_at)
      select e.key + n, 'ep_' || n, e.app, e.url, '', false, true, '["wide"]', '[]', '{}', '{}', 1, 0, 0
        from endpoint e, generate_series(1, ${wideEndpoints}) n where e.url like '%/eu/plain'
      returning key, app)
    insert into lane (endpoint, app, region, stopped) select key, app, 'eu', true from made`)
  await place.query('update application set version = version + 1')
  await ask('POST', '/app/eu/msg', { eventType: 'wide', payload: payloadOf('eu') })
  await eventually('the wide message waits for its paused endpoints', async () => {
    return (await pendingCount(place)) === wideEndpoints && arrived('/eu/plain') > 6
  })
  for (const region of ['eu', 'us'] as const) {
    const { id } = await ask<{ id: string }>('POST', `/app/${region}/subject/erase`, {
      ...{ subject: 'ann', waiting: 'deliver-without' },
    })
    const { report } = await eventually('the erasure ends', async () => {
      const erasure = await ask<Erasure>('GET', `/app/${region}/erasure/${id}`)
      return erasure.state === 'finished' && erasure
    })
    const { without, messages } = report.erased
    assert.deepEqual([without, messages], [region === 'eu' ? wideEndpoints : 0, 6])
  }
  assert.deepEqual([...(read.get('eu') ?? [])], [words.eu])
  assert.deepEqual([...(read.get('us') ?? [])], [words.us])
  for (const region of ['eu', 'us'] as const) {
    assert.doesNotMatch(readFileSync(fileOf(region), 'utf8'), new RegExp(words[region === 'eu' ? 'us' : 'eu']))
  }
})

test('lanes stay in their regions when workers die and when regions change under load, and no limit is exceeded', async (t) => {
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t, { timed: true })
  const ledger = new Ledger()
  const server = await Program.start(t, 'serve', place.store, { SLUICE_REGION: 'default' })
  const eu = await Program.start(t, 'worker', place.store, { SLUICE_REGION: 'eu' })
  const us = await Program.start(t, 'worker', place.store, { SLUICE_REGION: 'us' })
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  const patch = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
    const response = await fetch(`${server.api}${path}`, { method: 'PATCH', headers, body: JSON.stringify(body) })
    assert.equal(response.status, 200, await response.text())
  }
  await client.createApplication('acme')
  await patch('/app/acme', { region: 'eu' })
  const limits = { throttleRate: 40, burst: 5, concurrency: 3 }
  const moving = await ledger.subscribe(client, receiver, 'acme', '/moving', limits)
  await ledger.subscribe(client, receiver, 'acme', '/own', { region: 'us', ...limits })
  for (const path of ['/moving', '/own']) {
    receiver.behave(path, () => new Promise((resolve) => setTimeout(resolve, 20, { status: 200 })))
  }
  const workerOf = async (program: Program) => {
    const rows = await place.query(`select id, description from worker where ended_at is null`)
    return rows.find(({ description }) => String(description).includes(`pid ${program.process.pid} `))?.id
  }
  const ownerOf = async (endpoint: string) =>
    (
      await place.query(`select owner from lane where endpoint = (select key from endpoint where id = '${endpoint}')`)
    )[0]?.owner
  const isOwnedBy = (program: Program) => async () => {
    const [owner, worker] = [await ownerOf(moving.endpoint), await workerOf(program)]
    return owner !== null && owner === worker
  }

  const load = new Load(t, ledger, client, 'acme', 30)
  await eventually('a worker of eu has the lane', isOwnedBy(eu))
  await patch(`/app/acme/endpoint/${moving.endpoint}`, { region: 'us' })
  await eventually('a worker of us has the lane', isOwnedBy(us))
  await patch(`/app/acme/endpoint/${moving.endpoint}`, { region: null })
  await eventually('its application has the lane back', isOwnedBy(eu))
  await patch('/app/acme', { region: 'us' })
  await eventually('the lane follows its application', isOwnedBy(us))
  await us.kill()
  await patch('/app/acme', { region: 'eu' })
  await eventually('the lane of a dead worker moves, too', isOwnedBy(eu))
  const why = await eventually('a lane of us waits', async () => {
    const headers = { authorization: `Bearer ${apiKey}` }
    const own = ledger.destinations.find(({ path }) => path === '/own')?.endpoint
    const response = await fetch(`${server.api}/app/acme/endpoint/${own}/why`, { headers })
    const { reason, detail } = (await response.json()) as { reason: string; detail: string }
    return reason === 'no_worker_in_region' && detail
  })
  assert.match(why, /sluice worker --region us/)
  await Program.start(t, 'worker', place.store, { SLUICE_REGION: 'us' })
  await load.stop()
  await ledger.allDelivered(receiver)
  await eventually('nothing is left', async () => (await pendingCount(place)) === 0)
  ledger.audit(receiver)
  for (const path of ['/moving', '/own']) {
    assert.ok(worstExcess(receiver.at(path), { rate: 40, burst: 5 }) <= 0, `${path} got too many`)
    assert.ok(mostOpen(receiver.at(path)) <= 3, `${path} got too many at once`)
  }
})
