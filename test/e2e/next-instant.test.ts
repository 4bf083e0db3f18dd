import assert from 'node:assert/strict'
import { test } from 'node:test'
import { embed } from '../library/embedded.ts'
import { eventually } from './eventually.ts'
import { openPlace } from './place.ts'
import { Receiver } from './receiver.ts'

interface Shown {
  readonly uid?: string
  readonly id: string
  readonly nextAttempt: string | null
}

const circuit = { failures: 1, openMs: 120_000, maxOpenMs: 120_000 }
const soon = { waits: { kind: 'list', ms: Array(20).fill(1000) }, jitter: 'none' }
const inAnHour = { waits: { kind: 'list', ms: [3_600_000] }, jitter: 'none' }

/** An owner tells how long a limit still holds, so two answers may differ by the time that they took to be stored. */
function isSame(shown: string | null, said: string | number | null): boolean {
  if (shown === null || said === null) return shown === said
  return Math.abs(Date.parse(shown) - new Date(said).getTime()) < 1000
}

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: why, the destinations of a message and the messages of an endpoint name one next instant`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    receiver.behave('/down', () => ({ status: 500 }))
    receiver.behave('/busy', () => ({ status: 429, headers: { 'retry-after': '300' } }))
    const sluice = await embed(t, place)
    await sluice.applications.create({ name: 'Acme', uid: 'acme' })
    const fields = {
      broken: { url: `${receiver.url}/down`, circuit, retry: soon },
      held: { url: `${receiver.url}/busy`, circuit: 'off', retry: soon },
      retrying: { url: `${receiver.url}/down`, circuit: 'off', retry: inAnHour },
      off: { url: `${receiver.url}/down`, disabled: true },
      slow: { url: `${receiver.url}/ok`, throttleRate: 1, throttlePeriodSeconds: 3600, burst: 1 },
      inOrder: { url: `${receiver.url}/down`, circuit: 'off', order: 'fifo', retry: inAnHour },
    }
    for (const [uid, each] of Object.entries(fields)) {
      await sluice.request('POST', '/app/acme/endpoint', { uid, ...each })
    }
    const publish = () => sluice.publish('acme', { eventType: 'a.b', payload: {} })
    const reasons = async (message: string) => {
      const each: string[] = []
      for (const uid of Object.keys(fields)) each.push((await sluice.explain('acme', uid, message)).reason)
      return each.join()
    }
    // The first opens the circuit, meets the Retry-After and takes the token of the hour.
    const first = (await publish()).id
    const ofFirst = 'circuit_open,held,waiting_for_retry,disabled,delivered,waiting_for_retry'
    await eventually('every first attempt is recorded', async () => (await reasons(first)) === ofFirst)
    const second = (await publish()).id
    const ofSecond = 'circuit_open,held,waiting_for_retry,disabled,rate_limited,behind_head'
    await eventually('every lane knows the second message', async () => (await reasons(second)) === ofSecond)

    // One function in one place, for every combination. Three requests are no single instant: a lane may change between them.
    for (const message of [first, second]) {
      for (const uid of Object.keys(fields)) {
        await eventually(`${uid}: three answers with one next instant`, async () => {
          const destinations = await sluice.request<{ data: Shown[] }>('GET', `/app/acme/msg/${message}/endpoint`)
          const why = await sluice.explain('acme', uid, message)
          const tried = await sluice.request<{ data: Shown[] }>('GET', `/app/acme/endpoint/${uid}/msg`)
          const destination = destinations.data.find((each) => each.uid === uid)
          const ofEndpoint = tried.data.find(({ id }) => id === message)
          return (
            isSame(destination?.nextAttempt ?? null, why.expectedAt) &&
            (ofEndpoint === undefined || isSame(ofEndpoint.nextAttempt, why.expectedAt))
          )
        })
      }
    }
    const inMs = async (uid: string, message: string) =>
      Date.parse(String((await sluice.explain('acme', uid, message)).expectedAt)) - Date.now()
    assert.ok((await inMs('broken', second)) > 60_000, 'the circuit, and not the retry, is what it waits for')
    assert.ok((await inMs('held', first)) > 120_000, 'the Retry-After is')
    assert.ok((await inMs('retrying', first)) > 1_800_000, 'the schedule is')
  })

  test(`${dialect}: a message for later that was never tried is scheduled and waits for no retry`, async (t) => {
    const place = await openPlace(t, dialect)
    const sluice = await embed(t, place)
    await sluice.applications.create({ name: 'Acme', uid: 'acme' })
    await sluice.endpoints.create('acme', { url: 'http://127.0.0.1:9/', uid: 'main' })
    const at = new Date(Date.now() + 3_600_000).toISOString()
    const { id } = await sluice.request<{ id: string }>('POST', '/app/acme/msg', {
      eventType: 'a.b',
      payload: {},
      deliverAt: at,
    })
    const why = await sluice.explain('acme', 'main', id)
    const all = await sluice.explain('acme', 'main')
    assert.deepEqual([why.reason, all.reason], ['scheduled', 'scheduled'])
    const { data } = await sluice.request<{ data: Shown[] }>('GET', `/app/acme/msg/${id}/endpoint`)
    const instants = [why.expectedAt, all.nextAt, data[0]?.nextAttempt].map((each) => new Date(each ?? 0).toISOString())
    assert.deepEqual(instants, [instants[0], instants[0], instants[0]])
    assert.ok(Math.abs(Date.parse(at) - Date.parse(instants[0] ?? '')) < 5000)
  })
}
