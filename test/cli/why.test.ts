import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { type Served, served, workplace } from './program.ts'

/** Asks the API directly, which is quicker than a command for what is not under test. */
async function post({ env }: Served, path: string, body: unknown = {}): Promise<{ id: string }> {
  const response = await fetch(`${env.SLUICE_URL}/api/v1${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${env.SLUICE_API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  assert.ok(response.ok, `${response.status}`)
  return response.status === 204 ? { id: '' } : ((await response.json()) as { id: string })
}

describe('sluice why', () => {
  const where = workplace()
  let place: Served
  let id = ''
  before(async () => {
    place = await served(where)
    await post(place, '/app', { name: 'W', uid: 'w' })
    for (const uid of ['one', 'two']) {
      await post(place, '/app/w/endpoint', { url: 'http://127.0.0.1:1/', uid, throttleRate: 5 })
    }
    await post(place, '/app/w/endpoint/one/pause')
    await post(place, '/app/w/endpoint/two/pause')
    id = (await post(place, '/app/w/msg', { eventType: 'a.b', payload: {} })).id
  })

  test('tells of an application, the worst endpoints first', async () => {
    const { sluice, json } = place
    const told = await sluice('why w')
    assert.match(
      told,
      /^2 deliveries wait for 2 endpoints: 2 paused\.\n\nENDPOINT +WAITING +OLDEST +WHY +NEXT +DETAILS\n/,
    )
    assert.match(told, /^one +1 +just now +paused +– +The endpoint is paused; waiting deliveries are sent once/m)
    const { data, done } = await json<{ data: { reason: string }[]; done: boolean }>('why w --limit 1')
    assert.deepEqual([data.map(({ reason }) => reason), done], [['paused'], false])
    const one = await sluice('why w --limit 1')
    assert.match(one, /^2 deliveries wait for 2 endpoints\. The worst one: 1 paused\.\n\nENDPOINT/)
    assert.match(one, /\n… and more\. Show them with --limit 10\.\n$/)
    assert.match(await sluice('why w --sort age'), /^one +1 /m)
    assert.match(await sluice('why w --sort size', 2), /--sort/)
    await sluice('why nobody', 4)
  })

  test('without an application, names the worst endpoints of all', async () => {
    const { sluice } = place
    const all = await sluice('why')
    assert.match(all, /^2 deliveries wait for 2 endpoints: 2 paused\.\n\nAPPLICATION +ENDPOINT +WAITING/)
    assert.match(all, /^w +one +1 +just now +paused/m)
    assert.match(await sluice('why --endpoint one', 2), /^Name the application of the endpoint\./)
  })

  test('tells of an endpoint', async () => {
    const { sluice } = place
    const told = await sluice('why w --endpoint one')
    assert.match(told, /^paused: The endpoint is paused; waiting deliveries are sent once it is resumed\.\n/)
    assert.match(told, /^waiting +1 \(fresh 1, timed 0, replay 0\)\noldest +just now\n/m)
    assert.match(told, /^as of +\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ \(last stored\)$/m)
    await sluice('why w --endpoint nobody', 4)
  })

  test('tells of a message, at each endpoint or at one', async () => {
    const { sluice } = place
    const told = await sluice(`why w ${id}`)
    assert.match(told, /^ENDPOINT +WHY +NEXT +TRIED +DETAILS\n/)
    assert.equal(told.match(/^(one|two) +paused +– +0 +The endpoint is paused/gm)?.length, 2)
    assert.match(await sluice(`why w ${id} one`), /^paused: The endpoint is paused/)
    assert.match(await sluice(`why w ${id} one --endpoint two`, 2), /^Name only one endpoint\./)
    assert.equal(await sluice('why w msg_unknown', 4), 'There is no message "msg_unknown".\n')
    assert.equal(
      await sluice('why w one', 4),
      'There is no message "one". For the endpoint: `sluice why w --endpoint one`.\n',
    )
  })

  test('the worker of the server is listed, as the leader', async () => {
    const { sluice, json } = place
    const { data } = await json<{ data: { pid: number; state: string; version: string }[] }>('workers')
    assert.deepEqual([data.length, data[0]?.pid, data[0]?.state], [1, process.pid, 'alive'])
    const line = /^ *1 +sluice serve .*\d+\.\d+\.\d+ +all +20\S+ \S+Z +just now +\d+ +\d+ +alive, leader$/m
    assert.match(await sluice('workers'), line)
  })
})
