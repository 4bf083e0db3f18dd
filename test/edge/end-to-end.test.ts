import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { atEnd } from '../e2e/at-end.ts'
import { Client } from '../e2e/client.ts'
import { eventually } from '../e2e/eventually.ts'
import { deliveryOf, Ledger } from '../e2e/ledger.ts'
import { openPlace, type Place, pendingCount } from '../e2e/place.ts'
import { apiKey, Program } from '../e2e/program.ts'
import { type Arrival, Receiver } from '../e2e/receiver.ts'
import { Edge, figures, secret, skip } from './edge.ts'
import { hubSecret, push } from './github.ts'

const producers = 4
/** Attempts soon and often: the edge refuses those that meet a lease, and is away for seconds. */
const retry = { waits: { kind: 'list', ms: Array.from({ length: 100 }, () => 300) } }
/** Short, because a lease of a killed edge lasts so long; 5 s longer. */
const timeoutSeconds = 5
const unprotected = { retry, circuit: 'off', secret, concurrency: 8 }
describe('Sluice → edge → receiver', { skip }, () => {
  test('over kills of Sluice and of the edge, each delivery arrives, and is repeated only if a kill of the edge met it', async (t) => {
    const place = await openPlace(t, 'sqlite')
    const receiver = await Receiver.listen(t, { timed: true })
    const edge = await Edge.start(t, { orders: { mode: 'relay', to: `${receiver.url}/orders`, timeoutSeconds } })
    const ledger = new Ledger()
    let sluice = await started(t, place)
    await sluice.client.createApplication('acme')
    const fields = { url: `${edge.url}/orders`, ...unprotected }
    await ledger.subscribe(sluice.client, receiver, 'acme', '/orders', fields)

    // One of five is refused first, and every answer waits for the gate while a kill is prepared.
    let gate = Promise.resolve()
    const refused = new Set<string>()
    receiver.behave('/orders', async (arrival) => {
      await gate
      const id = arrival.headers['webhook-id'] as string
      if (receiver.arrivals.length % 5 !== 0 || refused.has(id)) return { status: 200 }
      refused.add(id)
      return { status: 500 }
    })

    /** How often the receiver may take each delivery: once, and once more for each kill of the edge that met it. */
    const allowed = new Map<string, number>()
    for (const [round, victim] of (['sluice', 'edge', 'sluice', 'edge'] as const).entries()) {
      const open = Promise.withResolvers<void>()
      gate = open.promise
      await Promise.all(Array.from({ length: producers }, () => ledger.publishAll(sluice.client, 'acme', 10)))
      await receiver.until('attempts are open', () => receiver.open.size >= 3)
      const met = [...receiver.open]
      // In the later rounds the answers come in the last moment, and may or may not be passed back and recorded.
      if (round >= 2) {
        open.resolve()
        await receiver.until('answers are out', () => met.some(({ end }) => end === 'answered'))
      }
      if (victim === 'sluice') {
        await sluice.program.kill()
        open.resolve()
        sluice = await started(t, place)
      } else {
        await edge.kill()
        const since = receiver.arrivals.slice(receiver.arrivals.indexOf(met[0] as Arrival))
        for (const delivery of new Set(since.map(deliveryOf))) allowed.set(delivery, (allowed.get(delivery) ?? 1) + 1)
        open.resolve()
        await edge.start()
      }
      await ledger.allDelivered(receiver)
      await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)
    }

    ledger.audit(receiver)
    // On a busy machine the edge gives up requests that the gate kept waiting.
    const isGivenUp = ({ notBefore, endedAt = 0 }: Arrival) => endedAt - notBefore > 1000 * (timeoutSeconds - 1)
    for (const [delivery, arrivals] of Map.groupBy(receiver.arrivals, deliveryOf)) {
      const givenUp = arrivals.filter(isGivenUp).length
      const taken = arrivals.filter(isTaken).length
      assert.ok(taken <= (allowed.get(delivery) ?? 1) + givenUp, `${delivery} was taken ${taken} times`)
      if (givenUp === 0) assert.ok(areApart(arrivals), `${delivery} came twice at once`)
    }
    const outcomes = await place.query(`select status, count(*) as n from attempt group by status order by status`)
    t.diagnostic(JSON.stringify(outcomes))
  })

  test('over kills of both, the newest of each key arrives, in fewer requests than events', async (t) => {
    const place = await openPlace(t, 'sqlite')
    const receiver = await Receiver.listen(t)
    const route = { mode: 'coalesce', to: `${receiver.url}/cache`, key: '/key', windowSeconds: 1, timeoutSeconds: 2 }
    const edge = await Edge.start(t, { cache: route })
    let sluice = await started(t, place)
    await sluice.client.createApplication('acme')
    await sluice.client.createEndpoint('acme', { url: `${edge.url}/cache`, ...unprotected })
    const keys = ['a', 'b', 'c']
    const newest = new Map<string, string>()
    let accepted = 0
    for (const victim of ['edge', 'sluice', 'edge', 'none']) {
      for (let i = 0; i < 40; i++) {
        for (const key of keys) {
          const outcome = await sluice.client.publish('acme', 'video.ranked', Buffer.from(JSON.stringify({ key, i })))
          assert.equal(outcome.state, 'accepted')
          if (outcome.state === 'accepted') newest.set(key, outcome.id)
          accepted++
        }
      }
      if (victim === 'edge') {
        await receiver.until('a window ended', () => receiver.arrivals.length > 0)
        await edge.kill()
        await edge.start()
      } else if (victim === 'sluice') {
        await sluice.program.kill()
        sluice = await started(t, place)
      }
    }
    await eventually('Sluice has nothing left to do', async () => (await pendingCount(place)) === 0)
    await receiver.until('the newest of each key came', () => {
      const came = new Set(receiver.arrivals.filter(isTaken).map(({ headers }) => headers['webhook-id']))
      return [...newest.values()].every((id) => came.has(id))
    })
    t.diagnostic(`${accepted} events became ${receiver.arrivals.length} requests`)
    assert.ok(receiver.arrivals.length < accepted / 2)
  })

  test('over kills of both, each webhook that the edge took becomes one message', async (t) => {
    const place = await openPlace(t, 'sqlite')
    const receiver = await Receiver.listen(t)
    let sluice = await started(t, place)
    await sluice.client.createApplication('acme')
    await sluice.client.createEndpoint('acme', { url: `${receiver.url}/events`, ...unprotected })
    const source = await createSource(sluice.program.api, { provider: 'github', secret: hubSecret })
    const { origin, host } = new URL(sluice.program.api)
    const to = `${origin}${new URL(source.ingressUrl).pathname}`
    const route = { mode: 'ingress', provider: 'github', to, timeoutSeconds }
    const edge = await Edge.start(t, { github: route }, { github: hubSecret })

    const taken: string[] = []
    const send = async (count: number): Promise<void> => {
      for (let i = 0; i < count; i++) {
        const body = `{ "n":${taken.length},  "price": 1.0 }`
        const { status } = await edge.send('/github', push(body))
        assert.equal(status, 202)
        taken.push(body)
      }
    }
    await send(10)
    for (let round = 0; round < 2; round++) {
      await sluice.program.kill()
      await send(20)
      await edge.kill()
      await edge.start()
      await send(5)
      // The same address, which the route names.
      sluice = await started(t, place, { SLUICE_LISTEN: host })
      await send(10)
    }
    const bodies = () => receiver.arrivals.filter(isTaken).map(({ body }) => String(body))
    await receiver.until('all came', () => new Set(bodies()).size === taken.length)
    assert.deepEqual(new Set(bodies()), new Set(taken))
    // A repetition that the edge made is the same event for Sluice, and so the same message.
    const messages = new Set(receiver.arrivals.map(({ headers }) => headers['webhook-id']))
    assert.equal(messages.size, taken.length)
    assert.equal((await figures(edge, 'github')).failures, 0)
  })
})

function isTaken({ status, end }: Arrival): boolean {
  return end === 'answered' && status === 200
}

/** Whether each request began after the one before had ended. */
function areApart(arrivals: readonly Arrival[]): boolean {
  return arrivals.every((arrival, i) => i === 0 || (arrivals[i - 1]?.endedAt ?? Number.POSITIVE_INFINITY) <= arrival.at)
}

async function createSource(api: string, fields: object): Promise<{ readonly ingressUrl: string }> {
  const reply = await fetch(`${api}/app/acme/source`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(fields),
  })
  assert.equal(reply.status, 201)
  return reply.json() as Promise<{ ingressUrl: string }>
}

async function started(
  t: TestContext,
  place: Place,
  settings: Readonly<Record<string, string>> = {},
): Promise<{ program: Program; client: Client }> {
  const program = await Program.start(t, 'serve', place.store, settings)
  const client = new Client(program.api)
  atEnd(t, () => client.close())
  return { program, client }
}
