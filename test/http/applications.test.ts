import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { applicationFilter } from '../../src/features/applications/filter-service.ts'
import { type Api, openApi } from './api.ts'

const publish = { eventType: 'a', payload: {} }

describe('applications', () => {
  test('are made by PUT under the name they were asked for by, and then replaced', async () => {
    const { ask } = await openApi()
    const made = await ask('PUT', '/app/acme', { name: 'Acme', throttleRate: 5, metadata: { tier: 'gold' } })
    assert.equal(made.status, 201)
    assert.equal(made.json.uid, 'acme')
    const replaced = await ask('PUT', '/app/acme', { name: 'Acme 2' })
    assert.equal(replaced.status, 200)
    const { updatedAt, ...rest } = replaced.json
    const { updatedAt: _, ...before } = made.json
    assert.deepEqual(rest, { ...before, name: 'Acme 2', throttleRate: null, rateLimit: null, metadata: {} })
    assert.ok(updatedAt >= made.json.updatedAt)
    assert.deepEqual((await ask('GET', `/app/${made.json.id}`)).json, replaced.json)
  })

  test('are not made by PUT under an id, or a name that is none', async () => {
    const { ask } = await openApi()
    for (const ref of [`app_${'0'.repeat(27)}`, 'a%20b', 'app_x']) {
      assert.equal((await ask('PUT', `/app/${ref}`, { name: 'A' })).status, 404, ref)
    }
    assert.equal((await ask('GET', '/app')).json.data.length, 0)
  })

  test('made by PUT by many at once are one application', async () => {
    const { ask } = await openApi()
    const answers = await Promise.all(Array.from({ length: 10 }, (_, i) => ask('PUT', '/app/a', { name: `A${i}` })))
    assert.deepEqual(answers.map(({ status }) => status).sort(), [...Array(9).fill(200), 201])
    assert.equal(new Set(answers.map(({ json }) => json.id)).size, 1)
  })

  describe('are left out of a list by their endpoints', () => {
    const play = 'https://play.svix.com/in/e_x/'
    const own = 'https://example.com/'
    /** Applications by name, with the URLs of their endpoints; those with a `-` in front are disabled. */
    const world: Record<string, string[]> = {
      none: [],
      disabled: [`-${own}`, `-${own}a`],
      'half-up': [`-${own}`, own],
      play: [play, `${play}2`],
      both: [play, own],
      'play-off': [`-${play}`],
      // Each kind is left out only if all endpoints are of it.
      mixed: [`-${own}`, play],
    }
    const all = Object.keys(world)

    async function populated(): Promise<Api & { names(query: string): Promise<string[]> }> {
      const api = await openApi()
      for (const [uid, urls] of Object.entries(world)) {
        await api.ask('POST', '/app', { name: uid, uid })
        for (const url of urls) {
          const made = { url: url.replace(/^-/, ''), disabled: url.startsWith('-') }
          assert.equal((await api.ask('POST', `/app/${uid}/endpoint`, made)).status, 201)
        }
      }
      const names = async (query: string) => {
        const { status, json, text } = await api.ask('GET', `/app?${query}`)
        assert.equal(status, 200, text)
        return json.data.map(({ uid }: { uid: string }) => uid)
      }
      return { ...api, names }
    }

    test('as Svix does: without any, only disabled, only at play.svix.com', async () => {
      const { names } = await populated()
      const without = (...left: string[]) => all.filter((name) => !left.includes(name))
      const no = 'exclude_apps_with_no_endpoints'
      const disabled = 'exclude_apps_with_disabled_endpoints'
      const inPlay = 'exclude_apps_with_svix_play_endpoints'
      assert.deepEqual(await names(`${no}=false&${disabled}=false&${inPlay}=false`), all)
      assert.deepEqual(await names(`${no}=true`), without('none'))
      assert.deepEqual(await names(`${disabled}=true`), without('disabled', 'play-off'))
      assert.deepEqual(await names(`${inPlay}=true`), without('play', 'play-off'))
      const each = `${no}=true&${disabled}=true&${inPlay}=true`
      assert.deepEqual(await names(each), ['half-up', 'both', 'mixed'])
      assert.deepEqual(await names(`${each}&order=descending`), ['mixed', 'both', 'half-up'])
    })

    test('and by a text in the name, the uid or the id, in any case, together with the others', async () => {
      const { ask, names } = await populated()
      const { json } = await ask('POST', '/app', { name: 'Köln HALF-TIME', uid: 'col-ogne' })
      assert.deepEqual(await names('search=half-'), ['half-up', 'col-ogne'])
      assert.deepEqual(await names('search=L-OGNE'), ['col-ogne'])
      assert.deepEqual(await names(`search=${json.id}`), ['col-ogne'])
      assert.deepEqual(await names('search=half-&exclude_apps_with_no_endpoints=true'), ['half-up'])
      assert.deepEqual(await names('search=nothing'), [])
      assert.equal((await ask('GET', `/app?search=${'x'.repeat(257)}`)).status, 422)
      const first = (await ask('GET', '/app?search=a&limit=1')).json
      const second = (await ask('GET', `/app?search=a&limit=1&iterator=${first.iterator}`)).json
      assert.deepEqual(
        [first, second].map(({ data }) => data[0].uid),
        (await names('search=a')).slice(0, 2),
      )
    })

    test('page by page, in both directions', async () => {
      const { ask } = await populated()
      const pages = async (order: string) => {
        const seen: string[] = []
        for (let iterator = ''; ; ) {
          const query = `exclude_apps_with_no_endpoints=true&exclude_apps_with_disabled_endpoints=true&order=${order}`
          const { json } = await ask('GET', `/app?${query}&limit=2${iterator}`)
          seen.push(...json.data.map(({ uid }: { uid: string }) => uid))
          assert.ok(json.data.length === 2 || json.done)
          if (json.done) return seen
          iterator = `&iterator=${json.iterator}`
        }
      }
      assert.deepEqual(await pages('ascending'), ['half-up', 'play', 'both', 'mixed'])
      assert.deepEqual(await pages('descending'), ['mixed', 'both', 'play', 'half-up'])
    })

    test('with a page that ends where many endpoints were read, and goes on behind it', async () => {
      const { deps } = await populated()
      const { store, clock } = deps
      const seen: (string | null)[] = []
      let rows = (await store.listApplications({ limit: 50, order: 'ascending', after: null })).items
      for (let calls = 1; rows.length > 0; calls++) {
        // Room for one endpoint: each call looks at one application, however many endpoints it has.
        const filter = applicationFilter(store, clock, { exclude_apps_with_disabled_endpoints: true }, 1)
        assert.ok(filter !== undefined)
        const { kept, looked } = await filter.keep(rows)
        assert.equal(looked, 1)
        seen.push(...kept.map(({ uid }) => uid))
        rows = rows.slice(looked)
        assert.ok(calls <= all.length)
      }
      assert.deepEqual(seen, ['none', 'half-up', 'play', 'both', 'mixed'])
    })
  })

  test('are changed field by field: what is absent stays, null unsets', async () => {
    const { ask } = await openApi()
    const full = { name: 'A', uid: 'a', throttleRate: 5, metadata: { x: 'y' } }
    const { json: before } = await ask('POST', '/app', full)
    const kept = await ask('PATCH', '/app/a', { name: 'B' })
    assert.equal(kept.status, 200)
    assert.deepEqual({ ...kept.json, updatedAt: '' }, { ...before, name: 'B', updatedAt: '' })
    const unset = await ask('PATCH', '/app/a', { uid: null, throttleRate: null })
    assert.deepEqual([unset.json.uid, unset.json.throttleRate, unset.json.metadata], [null, null, { x: 'y' }])
    assert.equal((await ask('GET', '/app/a')).status, 404)
    assert.deepEqual((await ask('GET', `/app/${before.id}`)).json, unset.json)
  })

  test('have default limits for their endpoints, which are changed one by one and shown in the lane', async () => {
    const { ask } = await openApi()
    const defaults = { defaultRate: 30, defaultPeriodSeconds: 60, defaultBurst: 4 }
    const names = { signatureHeaders: { id: 'x-id' } }
    const made = await ask('POST', '/app', { name: 'A', uid: 'a', ...defaults, ...names })
    assert.equal(made.status, 201)
    const changed = await ask('PATCH', '/app/a', { defaultBurst: 7 })
    assert.deepEqual({ ...changed.json, updatedAt: '' }, { ...made.json, defaultBurst: 7, updatedAt: '' })
    const { json: endpoint } = await ask('POST', '/app/a/endpoint', { url: 'http://127.0.0.1/', uid: 'e' })
    assert.equal(endpoint.throttleRate, null)
    const { json: lane } = await ask('GET', '/app/a/endpoint/e/lane')
    assert.deepEqual(lane.limits, {
      ...{ throttleRate: 30, throttlePeriodSeconds: 60, burst: 7, concurrency: null },
      ...{ rateFrom: 'application', burstFrom: 'application' },
    })
    await ask('PATCH', '/app/a/endpoint/e', { throttleRate: 2 })
    const { json: own } = await ask('GET', '/app/a/endpoint/e/lane')
    assert.deepEqual([own.limits.throttleRate, own.limits.burst, own.limits.rateFrom], [2, null, 'endpoint'])
    const unset = await ask('PATCH', '/app/a', { defaultRate: null, signatureHeaders: null })
    assert.deepEqual([unset.json.defaultRate, unset.json.defaultBurst, unset.json.signatureHeaders], [null, 7, null])
    const replaced = await ask('PUT', '/app/a', { name: 'A' })
    assert.deepEqual([replaced.json.defaultBurst, replaced.json.defaultPeriodSeconds], [null, null])
    const wrong = await ask('PATCH', '/app/a', { defaultRate: 0 })
    assert.deepEqual([wrong.status, wrong.json.detail?.[0]?.loc], [422, ['body', 'defaultRate']])
  })

  test('take no uid that another has', async () => {
    const { ask } = await openApi()
    await ask('POST', '/app', { name: 'A', uid: 'a' })
    await ask('POST', '/app', { name: 'B', uid: 'b' })
    for (const [method, body] of [
      ['PATCH', { uid: 'b' }],
      ['PUT', { name: 'A', uid: 'b' }],
    ] as const) {
      const { status, json } = await ask(method, '/app/a', body)
      assert.deepEqual([status, json.code], [409, 'conflict'])
    }
    assert.equal((await ask('GET', '/app/a')).json.uid, 'a')
  })

  test('that change their uid are published to under the new one only', async () => {
    const { ask } = await openApi()
    await ask('POST', '/app', { name: 'A', uid: 'old' })
    assert.equal((await ask('POST', '/app/old/msg', publish)).status, 202)
    await ask('PATCH', '/app/old', { uid: 'new' })
    assert.equal((await ask('POST', '/app/old/msg', publish)).status, 404)
    assert.equal((await ask('POST', '/app/new/msg', publish)).status, 202)
  })

  test('that are deleted answer 404 everywhere, take nothing, and leave their uid to others', async () => {
    const { ask, store } = await openApi()
    const { json: app } = await ask('POST', '/app', { name: 'A', uid: 'a' })
    const { json: endpoint } = await ask('POST', '/app/a/endpoint', { url: 'https://example.com' })
    assert.equal((await ask('POST', '/app/a/msg', publish)).status, 202)
    assert.equal((await ask('DELETE', '/app/a')).status, 204)
    const gone = await answers({ ask }, app.id, endpoint.id)
    const unknown = await answers({ ask }, `app_${'0'.repeat(27)}`, endpoint.id)
    assert.deepEqual(gone, unknown)
    assert.deepEqual(new Set(gone.map(([status]) => status)), new Set([404]))
    assert.equal((await ask('GET', '/app')).json.data.length, 0)

    const { json: next } = await ask('POST', '/app', { name: 'A', uid: 'a' })
    assert.notEqual(next.id, app.id)
    assert.equal((await ask('POST', '/app/a/msg', publish)).status, 202)
    assert.deepEqual(await store.sweepRemoved(), { cancelled: 1, more: false })
    assert.equal((await store.counts()).pending, 0)
  })
})

/** How everything about an application is answered, without the path that was asked for. */
async function answers({ ask }: Pick<Api, 'ask'>, app: string, endpoint: string): Promise<[number, unknown][]> {
  const asked: [string, string, unknown?][] = [
    ['GET', `/app/${app}`],
    ['PATCH', `/app/${app}`, { name: 'B' }],
    ['PUT', `/app/${app}`, { name: 'B' }],
    ['DELETE', `/app/${app}`],
    ['GET', `/app/${app}/endpoint`],
    ['GET', `/app/${app}/endpoint/${endpoint}`],
    ['POST', `/app/${app}/endpoint`, { url: 'https://example.com' }],
    ['POST', `/app/${app}/msg`, publish],
  ]
  const found: [number, unknown][] = []
  for (const [method, path, body] of asked) {
    const { status, json } = await ask(method, path, body)
    // The detail echoes the name that was asked for.
    found.push([status, { ...json, detail: String(json.detail).replace(/".*"/, ''), instance: '' }])
  }
  return found
}
