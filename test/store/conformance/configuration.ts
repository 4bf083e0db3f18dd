import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AppError } from '../../../src/domain/app-error.ts'
import { defaultRetryPolicy } from '../../../src/domain/retry.ts'
import type { NewEndpoint, Page, PageRequest } from '../../../src/store/store.ts'
import { assertRemaining, begin, type Open, plainEndpoint } from './harness.ts'

export function configuration(open: Open): void {
  test('an application is found by its id and by its uid, and by nothing else', async (t) => {
    const { store } = await begin(t, open)
    const input = { name: 'Ünïcode 🎬', uid: 'acme', throttleRate: 50, metadata: { plan: 'gold' } }
    const made = await store.createApplication(input)
    assert.match(made.id, /^app_/)
    assert.deepEqual(made, { ...made, ...input })
    assert.deepEqual(await store.findApplication(made.id), made)
    assert.deepEqual(await store.findApplication('acme'), made)
    assert.equal(await store.findApplication('acm'), undefined)
    // The key alone, which anybody can guess, is not enough.
    const last = made.id.endsWith('0') ? '1' : '0'
    assert.equal(await store.findApplication(made.id.slice(0, -1) + last), undefined)
  })

  test('an application has a look of its portal, which is replaced as a whole', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const [app, other] = [await world.application(), await world.application()]
    assert.equal(await store.findPortalLook(app.key), undefined)
    const look = { name: 'Acme', logo: `data:image/png;base64,${'A'.repeat(40_000)}`, color: '#ff0000' }
    assert.equal(await store.setPortalLook(app.key, look), true)
    assert.deepEqual({ ...(await store.findPortalLook(app.key)) }, look)
    const plain = { name: null, logo: null, color: '#00ff00' }
    assert.equal(await store.setPortalLook(app.key, plain), true)
    assert.deepEqual({ ...(await store.findPortalLook(app.key)) }, plain)
    assert.equal(await store.findPortalLook(other.key), undefined)
    await store.deleteApplication(other.key)
    assert.equal(await store.setPortalLook(other.key, plain), false)
  })

  test('an application without a uid is not found by an empty one', async (t) => {
    const world = await begin(t, open)
    await world.application()
    await world.application()
    assert.equal(await world.store.findApplication(''), undefined)
  })

  test('a uid in use is a conflict, and nothing is stored', async (t) => {
    const world = await begin(t, open)
    await world.application('acme')
    await assert.rejects(world.application('acme'), { name: 'AppError', code: 'conflict' })
    const page = await world.store.listApplications({ limit: 10, order: 'ascending', after: null })
    assert.equal(page.items.length, 1)
  })

  test('pages of applications visit each once, in both orders', async (t) => {
    const world = await begin(t, open)
    const keys: number[] = []
    for (let i = 0; i < 5; i++) keys.push((await world.application()).key)
    const list = (page: PageRequest) => world.store.listApplications(page)
    assert.deepEqual(await walk(list, 'ascending', 2), { keys, pages: 3 })
    assert.deepEqual(await walk(list, 'descending', 2), { keys: keys.toReversed(), pages: 3 })
    // A page that ends exactly with the last item knows that it does.
    assert.deepEqual(await walk(list, 'ascending', 5), { keys, pages: 1 })
  })

  test('an endpoint keeps every field as it was given', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const made = await world.store.createEndpoint(app.key, everything)
    assert.match(made.id, /^ep_/)
    assert.deepEqual(made, { ...made, ...everything, app: app.key, disabledReason: 'operator' })
    assert.deepEqual(await world.store.findEndpoint(app.key, made.id), made)
    assert.deepEqual(await world.store.findEndpoint(app.key, 'partner-7'), made)
    const plain = await world.endpoint(app)
    assert.deepEqual(await world.store.findEndpoint(app.key, plain.id), { ...plain, ...plainEndpoint })
    assert.equal(plain.disabledReason, null)
  })

  test('an endpoint is found within its own application only', async (t) => {
    const world = await begin(t, open)
    const [app, other] = [await world.application(), await world.application()]
    const endpoint = await world.endpoint(app, { uid: 'one' })
    assert.equal(await world.store.findEndpoint(other.key, endpoint.id), undefined)
    assert.equal(await world.store.findEndpoint(other.key, 'one'), undefined)
    assert.equal(await world.store.updateEndpoint(other.key, endpoint.key, { url: 'https://evil.example' }), undefined)
    assert.deepEqual(await world.store.findEndpoint(app.key, 'one'), endpoint)
  })

  test('a uid may be used once per application', async (t) => {
    const world = await begin(t, open)
    const [app, other] = [await world.application(), await world.application()]
    await world.endpoint(app, { uid: 'one' })
    await world.endpoint(other, { uid: 'one' })
    await assert.rejects(world.endpoint(app, { uid: 'one' }), { name: 'AppError', code: 'conflict' })
  })

  test('an endpoint of an application that does not exist is refused', async (t) => {
    const { store } = await begin(t, open)
    await assert.rejects(store.createEndpoint(1, plainEndpoint), { name: 'AppError', code: 'not_found' })
  })

  test('the first endpoint of applications is found at once, and the others behind it', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const [app, none, other] = [await world.application(), await world.application(), await world.application()]
    assert(app && none && other)
    const made = [await world.endpoint(app), await world.endpoint(app, { disabled: true }), await world.endpoint(app)]
    const [first, second, third] = made.toSorted((a, b) => a.key - b.key)
    assert(first && second && third)
    const its = await world.endpoint(other)
    const brief = ({ key, disabled, url, app }: typeof its) => ({ key, disabled, url, app })
    const found = await store.firstEndpoints([other.key, none.key, app.key])
    assert.deepEqual(
      found.toSorted((a, b) => a.key - b.key),
      [brief(first), brief(its)].toSorted((a, b) => a.key - b.key),
    )
    assert.deepEqual(await store.endpointBriefs(app.key, first.key, 5), [brief(second), brief(third)])
    assert.deepEqual(await store.endpointBriefs(app.key, first.key, 1), [brief(second)])
    await store.deleteEndpoint(app.key, first.key)
    assert.deepEqual(await store.firstEndpoints([app.key]), [brief(second)])
    assert.deepEqual(await store.firstEndpoints([]), [])
  })

  test("pages of endpoints hold one application's, in both orders", async (t) => {
    const world = await begin(t, open)
    const [app, other] = [await world.application(), await world.application()]
    const keys: number[] = []
    for (let i = 0; i < 4; i++) {
      keys.push((await world.endpoint(app)).key)
      await world.endpoint(other)
    }
    const list = (page: PageRequest) => world.store.listEndpoints(app.key, page)
    assert.deepEqual(await walk(list, 'ascending', 3), { keys, pages: 2 })
    assert.deepEqual(await walk(list, 'descending', 2), { keys: keys.toReversed(), pages: 2 })
  })

  test('an application has at most as many endpoints as asked, also when they are made at once', async (t) => {
    const world = await begin(t, open)
    const [app, other] = [await world.application(), await world.application()]
    const make = (key: number) => world.store.createEndpoint(key, plainEndpoint, 2)
    const made = await Promise.allSettled([make(app.key), make(other.key), make(app.key), make(app.key), make(app.key)])
    const refused = made.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []))
    assert.deepEqual(refused, ['quota_exceeded', 'quota_exceeded'])
    const page = await world.store.listEndpoints(app.key, { limit: 10, order: 'ascending', after: null })
    assert.equal(page.items.length, 2)
  })

  test('an update changes the given fields and leaves the others', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const before = await world.endpoint(app, { ...everything, disabled: false })
    await world.pass(5)
    const change = { url: 'https://example.com/new', throttleRate: null, channels: null }
    const after = await world.store.updateEndpoint(app.key, before.key, change)
    assert(after)
    assert.deepEqual(after, { ...before, ...change, updatedAt: after.updatedAt })
    assert(after.updatedAt > before.updatedAt)
    assert.deepEqual(await world.store.findEndpoint(app.key, before.id), after)
  })

  test('an update of what does not exist answers nothing', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    assert.equal(await world.store.updateEndpoint(app.key, 12345, { disabled: true }), undefined)
  })

  test('an update to a uid in use is a conflict and changes nothing', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    await world.endpoint(app, { uid: 'taken' })
    const endpoint = await world.endpoint(app)
    const before = await world.store.subscriptions(app.key)
    const update = world.store.updateEndpoint(app.key, endpoint.key, { uid: 'taken', url: 'https://example.com/new' })
    await assert.rejects(update, { name: 'AppError', code: 'conflict' })
    assert.deepEqual(await world.store.findEndpoint(app.key, endpoint.id), endpoint)
    assert.deepEqual(await world.store.subscriptions(app.key), before)
  })

  test('an update that depends on what is stored sees it, and may refuse', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const { key } = await world.endpoint(app, { headers: { a: '1' } })
    const add = (name: string) =>
      world.store.updateEndpoint(app.key, key, ({ headers }, now) => ({
        headers: { ...headers, [name]: '2' },
        secrets: [{ secret: 'whsec_bmV3', expiresAt: now + 1000 }],
      }))
    const results = await Promise.all(['b', 'c', 'd'].map(add))
    const after = (await world.store.loadEndpoints([key]))[0]
    assert.deepEqual(after?.headers, { a: '1', b: '2', c: '2', d: '2' })
    assert(results.every((result) => result !== undefined))
    assertRemaining((after?.secrets[0]?.expiresAt ?? 0) - (after?.updatedAt ?? 0), 1500)
    const refusal = world.store.updateEndpoint(app.key, key, () => {
      throw new AppError('conflict', 'no')
    })
    await assert.rejects(refusal, { name: 'AppError', code: 'conflict' })
    assert.deepEqual((await world.store.loadEndpoints([key]))[0], after)
  })

  test('a paused lane holds what is published until it is resumed, and stays stopped while it is disabled', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoint = await world.endpoint(app, { paused: true })
    const worker = await world.join()
    await world.publish([endpoint])
    await world.assertNothingToClaim(worker)
    await world.store.updateEndpoint(app.key, endpoint.key, { disabled: true })
    const resumed = await world.store.updateEndpoint(app.key, endpoint.key, { paused: false })
    assert.deepEqual([resumed?.paused, resumed?.disabled], [false, true])
    await world.assertNothingToClaim(worker)
    await world.store.updateEndpoint(app.key, endpoint.key, { disabled: false })
    await world.claim(worker)
  })

  test('an application changes field by field, and publishers notice', async (t) => {
    const world = await begin(t, open)
    const app = await world.application('acme')
    await world.application('other')
    const version = async () => (await world.store.subscriptions(app.key))?.version as number
    const before = await version()
    await world.pass(5)
    const after = await world.store.updateApplication(app.key, { uid: 'new', metadata: { a: 'b' } })
    assert.deepEqual(after, { ...app, uid: 'new', metadata: { a: 'b' }, updatedAt: after?.updatedAt })
    assert((after?.updatedAt ?? 0) > app.updatedAt)
    assert.deepEqual(await world.store.findApplication('new'), after)
    assert.equal(await world.store.findApplication('acme'), undefined)
    assert((await version()) > before)
    await assert.rejects(world.store.updateApplication(app.key, { uid: 'other' }), { code: 'conflict' })
    assert.deepEqual(await world.store.findApplication('new'), after)
    assert.equal(await world.store.updateApplication(12345, { name: 'x' }), undefined)
  })

  test('client certificates that expire before an instant are found, the earliest first, until they are replaced', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [certificate] = everything.clientCertificate ?? []
    const added = async (uid: string, validUntil: number | null) => {
      const clientCertificate = validUntil === null || !certificate ? null : [{ ...certificate, validUntil }]
      return world.endpoint(app, { uid, clientCertificate })
    }
    const [late, early] = [await added('late', 3000), await added('early', 1000)]
    await added('later', 9000)
    await added('never', null)
    const found = async () =>
      (await world.store.expiringCertificates(5000, 10)).map(({ uid, expiresAt }) => [uid, expiresAt])
    assert.deepEqual(await found(), [
      ['early', 1000],
      ['late', 3000],
    ])
    assert.equal((await world.store.expiringCertificates(5000, 1)).length, 1)
    await world.store.updateEndpoint(app.key, late.key, { clientCertificate: null })
    await world.store.deleteEndpoint(app.key, early.key)
    assert.deepEqual(await found(), [])
    const [deleted] = await world.store.recallEndpoints([early.key])
    assert.deepEqual([deleted?.auth, deleted?.clientCertificate], [null, null])
  })

  test('an endpoint says that an operator disabled it, until it is enabled', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const { key } = await world.endpoint(app)
    const disabled = await world.store.updateEndpoint(app.key, key, { disabled: true })
    assert.deepEqual([disabled?.disabled, disabled?.disabledReason], [true, 'operator'])
    const enabled = await world.store.updateEndpoint(app.key, key, { disabled: false })
    assert.deepEqual([enabled?.disabled, enabled?.disabledReason], [false, null])
  })

  test("every change of its endpoints makes a new version of the application's subscriptions", async (t) => {
    const world = await begin(t, open)
    const [app, other] = [await world.application(), await world.application()]
    const version = async (key: number) => (await world.store.subscriptions(key))?.version as number
    const [first, others] = [await version(app.key), await version(other.key)]
    const { key } = await world.endpoint(app)
    const second = await version(app.key)
    await world.store.updateEndpoint(app.key, key, { eventTypes: ['video.*'] })
    const third = await version(app.key)
    assert(first < second && second < third, `${first}, ${second}, ${third}`)
    assert.equal(await version(other.key), others)
  })

  test('a change of settings is signalled with the endpoint it concerns', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const endpoint = await world.endpoint(app)
    const signalled: (readonly number[] | undefined)[] = []
    world.store.watch({ rows() {}, lanes() {}, settings: (endpoints) => void signalled.push(endpoints) })
    await world.store.updateEndpoint(app.key, endpoint.key, { url: 'https://example.com/new' })
    assert.deepEqual(signalled, [[endpoint.key]])
  })

  test('endpoints are loaded by key whatever their application, and missing ones are left out', async (t) => {
    const world = await begin(t, open)
    const apps = [await world.application(), await world.application()] as const
    const first = await world.endpoint(apps[0])
    const second = await world.endpoint(apps[1])
    const loaded = await world.store.loadEndpoints([second.key, 77, first.key])
    assert.deepEqual(
      loaded.toSorted((a, b) => a.key - b.key),
      [first, second].map((endpoint, i) => ({
        ...endpoint,
        appId: apps[i]?.id,
        appThrottleRate: null,
        appSettings: {},
        regionSecret: null,
        region: 'default',
      })),
    )
    assert.deepEqual(await world.store.loadEndpoints([]), [])
  })
}

const everything: NewEndpoint = {
  uid: 'partner-7',
  url: 'https://example.com/hook?a=1',
  description: "Robert'); drop table endpoint; -- 🎬",
  disabled: true,
  paused: true,
  eventTypes: ['video.*', 'user.created'],
  channels: ['eu', 'us'],
  secrets: [
    { secret: 'whsec_bmV3', expiresAt: null },
    { secret: 'whsec_b2xk', expiresAt: 1_800_000_000_000 },
  ],
  method: 'PATCH',
  headers: { 'x-tenant': 'acme' },
  auth: { kind: 'basic', username: 'sluice', password: 'pass|word' },
  clientCertificate: [
    {
      certificate: 'a certificate',
      key: 'its key',
      fingerprint: 'AB:CD',
      subject: 'CN=sluice',
      issuer: 'CN=authority',
      validFrom: 1_700_000_000_000,
      validUntil: 1_900_000_000_000,
      replacedAt: null,
    },
  ],
  metadata: { team: 'core' },
  throttleRate: 100,
  throttlePeriodSeconds: 60,
  burst: 7,
  concurrency: 3,
  timeoutMs: 9000,
  retry: defaultRetryPolicy,
}

async function walk(
  list: (page: PageRequest) => Promise<Page<{ key: number }>>,
  order: PageRequest['order'],
  limit: number,
): Promise<{ keys: number[]; pages: number }> {
  const keys: number[] = []
  let after: number | null = null
  for (let pages = 1; pages < 10; pages++) {
    const page: Page<{ key: number }> = await list({ limit, order, after })
    keys.push(...page.items.map((item) => item.key))
    if (page.done) return { keys, pages }
    after = keys.at(-1) ?? null
  }
  throw new Error('the pages do not end')
}
