import assert from 'node:assert/strict'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import type { Endpoint } from '../../../src/features/endpoints/rules.ts'
import { openPostgresStore } from '../../../src/store/postgres/open.ts'
import type { Publication } from '../../../src/store/publishing.ts'
import { type Store, StoreTrouble, type Watcher } from '../../../src/store/store.ts'
import { eventually } from '../../e2e/eventually.ts'
import { plainEndpoint } from '../conformance/harness.ts'
import { context, newDatabase, sharedServer, useOwnServer } from '../postgres-harness.ts'

useOwnServer()

async function openStore(t: TestContext, url: string): Promise<Store> {
  const store = await openPostgresStore(context, { url })
  t.after(() => store.close())
  return store
}

async function newEndpoint(store: Store): Promise<Endpoint> {
  const app = await store.createApplication({ name: 'Acme', uid: null, throttleRate: null, metadata: {} })
  return store.createEndpoint(app.key, plainEndpoint)
}

async function publish(store: Store, endpoint: Endpoint, delayMs = 0): Promise<string> {
  const subscriptions = await store.subscriptions(endpoint.app)
  const [published] = await store.publish([{ ...publicationTo(endpoint, subscriptions?.version ?? 0), delayMs }])
  return published?.state ?? 'nothing'
}

function publicationTo({ app, key }: Endpoint, version: number): Publication {
  return {
    app,
    version,
    eventType: 'video.trending',
    eventId: null,
    channels: null,
    body: Buffer.from('{}'),
    contentType: 'application/json',
    endpoints: [key],
    delayMs: 0,
  }
}

type Heard = [keyof Watcher, readonly number[] | undefined, ...unknown[]]

/** Watches a store; `next` resolves with the first signal, heard or yet to come, that matches. */
function listen(store: Store) {
  const heard: Heard[] = []
  let look = () => {}
  const note = (heardNow: Heard) => {
    heard.push(heardNow)
    look()
  }
  store.watch({
    rows: (endpoints, itsClass) => note(['rows', endpoints, itsClass]),
    lanes: () => note(['lanes', undefined]),
    settings: (endpoints) => note(['settings', endpoints]),
  })
  return {
    heard,
    next: (matches: (heard: Heard) => boolean) =>
      new Promise<Heard>((resolve) => {
        look = () => {
          const found = heard.find(matches)
          if (found) resolve(found)
        }
        look()
      }),
  }
}

const terminate = (application: string, like: string) => `
  select pg_terminate_backend(pid) from pg_stat_activity
   where datname = current_database() and application_name = '${application}' and query like '${like}'`

test('another process hears of publishes and changes; the process itself is informed directly', async (t) => {
  const url = await newDatabase()
  const [here, there] = [await openStore(t, url), await openStore(t, url)]
  const endpoint = await newEndpoint(here)
  const [near, far] = [listen(here), listen(there)]

  assert.equal(await publish(here, endpoint), 'accepted')
  assert.deepEqual(near.heard[0], ['rows', [endpoint.key], 0])
  await far.next(([kind]) => kind === 'lanes')
  assert.deepEqual(await far.next(([kind]) => kind === 'rows'), ['rows', [endpoint.key], 0])

  await here.updateEndpoint(endpoint.app, endpoint.key, { description: 'changed' })
  assert.deepEqual(await far.next(([kind]) => kind === 'settings'), ['settings', [endpoint.key]])
  assert.equal(near.heard.filter(([kind]) => kind === 'rows').length, 1)
})

test('a notification tells the worker of another process about rows, and a lane owned here costs none', async (t) => {
  const url = await newDatabase()
  const [here, there] = [await openStore(t, url), await openStore(t, url)]
  const endpoint = await newEndpoint(here)
  const ours = await newEndpoint(here)
  const far = listen(there)
  await publish(here, endpoint)
  await publish(here, ours)
  const [worker, other] = [
    await here.join({ leaseMs: 60_000, description: 'here' }),
    await there.join({ leaseMs: 60_000, description: 'there' }),
  ]
  await far.next(([kind, endpoints]) => kind === 'rows' && endpoints?.includes(ours.key) === true)
  assert.equal((await there.claim(other, 1)).lanes[0]?.endpoint.key, endpoint.key)
  assert.equal((await here.claim(worker, 1)).lanes[0]?.endpoint.key, ours.key)
  far.heard.length = 0

  await publish(here, ours)
  await publish(here, endpoint, 60_000)
  assert.deepEqual(await far.next(([kind]) => kind === 'rows'), ['rows', [endpoint.key], undefined])
  assert.deepEqual(
    far.heard.filter(([kind, endpoints]) => kind === 'lanes' || endpoints?.includes(ours.key)),
    [],
  )
})

test('a listening connection that is lost comes back, and everything is signalled', async (t) => {
  const server = await sharedServer()
  const url = await newDatabase()
  const store = await openStore(t, url)
  const endpoint = await newEndpoint(store)
  const ear = listen(store)
  for (let round = 0; round < 2; round++) {
    ear.heard.length = 0
    const { rowCount } = await server.query(terminate('sluice', 'listen%'), url)
    assert.equal(rowCount, 1)
    await ear.next(([kind, endpoints]) => kind === 'rows' && endpoints === undefined)
    await ear.next(([kind]) => kind === 'lanes')
    await ear.next(([kind, endpoints]) => kind === 'settings' && endpoints === undefined)
  }
  const other = await openStore(t, url)
  await publish(other, endpoint)
  await ear.next(([kind, endpoints]) => kind === 'rows' && endpoints?.[0] === endpoint.key)
})

test('a connection killed under a statement is StoreTrouble, and the next statement gets another', async (t) => {
  const server = await sharedServer()
  const url = await newDatabase()
  const store = await openStore(t, url)
  const endpoint = await newEndpoint(store)
  const worker = await store.join({ leaseMs: 60_000, description: 'here' })

  // Another session holds the application's row, so that the change waits until it is killed.
  const gate = await server.session(url)
  t.after(() => gate.end())
  await gate.query('begin; select from application for update')
  const changing = store.updateEndpoint(endpoint.app, endpoint.key, { description: 'never' })
  const refused = assert.rejects(changing, StoreTrouble)
  const killed = async () => (await server.query(terminate('sluice', '%version = version + 1%'), url)).rowCount
  while ((await killed()) === 0);
  await refused
  await gate.query('rollback')

  assert.equal((await store.findEndpoint(endpoint.app, endpoint.id))?.description, '')
  assert.equal((await store.updateEndpoint(endpoint.app, endpoint.key, { description: 'now' }))?.description, 'now')
  assert.equal((await store.renew(worker, 60_000)).alive, true)
})

test('a wake-up that fails is made good', async (t) => {
  const server = await sharedServer()
  const url = await newDatabase()
  const store = await openStore(t, url)
  const endpoint = await newEndpoint(store)
  const ear = listen(store)
  const gate = await server.session(url)
  t.after(() => gate.end())
  await gate.query('begin; select from lane for update')
  assert.equal(await publish(store, endpoint), 'accepted')
  const killed = async () => (await server.query(terminate('sluice', '%woken%'), url)).rowCount
  while ((await killed()) === 0);
  await gate.query('rollback')
  await ear.next(([kind]) => kind === 'lanes')
  const worker = await store.join({ leaseMs: 60_000, description: 'here' })
  assert.equal((await store.claim(worker, 1)).lanes[0]?.endpoint.key, endpoint.key)
})

test('a database that takes no writes is not healthy, and is again once it takes them', async (t) => {
  const server = await sharedServer()
  const url = await newDatabase()
  const name = new URL(url).pathname.slice(1)
  const setReadOnly = async (value: 'on' | 'off') => {
    await server.query(`alter database "${name}" set default_transaction_read_only = ${value}`)
    await server.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`)
  }
  const store = await openStore(t, url)
  assert.equal(await store.ping(), undefined)
  await setReadOnly('on')
  await eventually('the store is unhealthy because it is read-only', () =>
    store.ping().then(
      () => false,
      (error) => error instanceof StoreTrouble && /read-only/.test(error.message),
    ),
  )
  await setReadOnly('off')
  await eventually('the store is healthy', () =>
    store.ping().then(
      () => true,
      () => false,
    ),
  )
})

const ownServer = { skip: process.env.DATABASE_URL ? 'the server at DATABASE_URL is not ours to stop' : false }

test(
  'a server that stops is StoreTrouble; once it is back, so is the store, with all that was accepted',
  ownServer,
  async (t) => {
    const server = await sharedServer()
    const url = await newDatabase()
    const store = await openStore(t, url)
    const endpoint = await newEndpoint(store)
    const worker = await store.join({ leaseMs: 600_000, description: 'here' })
    const ear = listen(store)
    assert.equal(await publish(store, endpoint), 'accepted')
    await server.stop()
    try {
      await assert.rejects(publish(store, endpoint), StoreTrouble)
      await assert.rejects(store.ping(), StoreTrouble)
      await assert.rejects(store.claim(worker, 1), StoreTrouble)
      await assert.rejects(store.renew(worker, 1000), StoreTrouble)
      await assert.rejects(
        store.settle(worker, [], { holds: [], disable: [{ endpoint: endpoint.key, reason: 'gone' }], health: [] }),
        StoreTrouble,
      )
    } finally {
      await server.start()
    }
    await ear.next(([kind, endpoints]) => kind === 'settings' && endpoints === undefined)
    assert.equal((await store.renew(worker, 600_000)).alive, true)
    assert.deepEqual(await store.counts(), { pending: 1, dead: 0, messages: 1, attempts: 0 })
    assert.equal(await publish(store, endpoint), 'accepted')
  },
)

/** The URL of a database behind a proxy that cuts a connection, once, when a client names a statement. */
async function cutAt(t: TestContext, url: string, statement: string): Promise<string> {
  const { hostname, port } = new URL(url)
  const sockets = new Set<Socket>()
  let isCut = false
  const proxy = createServer((client) => {
    const server = connect(Number(port), hostname)
    for (const socket of [client, server]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        client.destroy()
        server.destroy()
      })
    }
    client.on('data', (chunk) => {
      if (isCut || !chunk.includes(statement)) return server.write(chunk)
      isCut = true
      return client.destroy()
    })
    server.pipe(client)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    proxy.close()
  })
  const proxied = new URL(url)
  proxied.host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`
  return proxied.href
}

test('a connection that is lost after a group was stored refuses none of its messages', async (t) => {
  const url = await newDatabase()
  const store = await openStore(t, await cutAt(t, url, 'by-event-ids'))
  const endpoint = await newEndpoint(store)
  const publication = publicationTo(endpoint, (await store.subscriptions(endpoint.app))?.version ?? 0)
  const named = { ...publication, eventId: 'evt-1' }
  const [first] = await store.publish([named])
  assert(first?.state === 'accepted')
  const [refused, accepted] = await store.publish([named, publication])
  assert.deepEqual(refused, { state: 'stale' }, 'to be tried again')
  assert.equal(accepted?.state, 'accepted')
  assert.deepEqual(await store.publish([named]), [{ state: 'conflict', id: first.id }])
  assert.equal((await store.counts()).messages, 2)
})
