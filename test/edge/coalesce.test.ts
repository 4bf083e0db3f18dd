import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openVerifier } from '../../receiver/src/index.ts'
import { eventually } from '../e2e/eventually.ts'
import { type Arrival, Receiver } from '../e2e/receiver.ts'
import { Edge, figures, messageId, secret, signed, skip } from './edge.ts'

const rank = (video: string, n: number) => JSON.stringify({ n, video: { id: video } })
const numbers = (arrivals: readonly Arrival[]) => arrivals.map(({ body }) => JSON.parse(body.toString()).n)
const ofType = (type: string) => ({ headers: { 'x-event-type': type } })

interface Listed {
  readonly failures: readonly { failure: string; id: string; reason: string; attempts: number }[]
}

describe('coalescing', { skip }, () => {
  test('forwards the newest of each type and key at the end of the window', async (t) => {
    const receiver = await Receiver.listen(t)
    const common = { mode: 'coalesce', key: '/video/id', windowSeconds: 4 }
    const edge = await Edge.start(t, {
      cache: { ...common, to: `${receiver.url}/cache`, type: 'x-event-type' },
      long: { ...common, to: `${receiver.url}/long`, windowSeconds: 3600 },
      open: { ...common, to: `${receiver.url}/open`, windowSeconds: 1, shards: 1 },
      late: { ...common, to: `${receiver.url}/late`, windowSeconds: 1 },
      small: { ...common, to: `${receiver.url}/small`, windowSeconds: 3600, maxStored: 2, shards: 1 },
      shaky: { ...common, to: `${receiver.url}/shaky`, windowSeconds: 1, shards: 1 },
      dead: { ...common, to: `${receiver.url}/dead`, windowSeconds: 1, retryForSeconds: 0 },
      gone: { ...common, to: `${receiver.url}/gone`, windowSeconds: 1 },
      kept: { ...common, to: `${receiver.url}/kept`, windowSeconds: 1, retryForSeconds: 0, maxFailures: 2, shards: 1 },
    })

    await t.test('with the bytes and the signature of the newest', async () => {
      const sent = [
        signed(messageId(), rank('a', 1), ofType('video.ranked')),
        signed(messageId(), rank('b', 2), ofType('video.ranked')),
        signed(messageId(), rank('a', 3), ofType('video.ranked')),
        signed(messageId(), rank('a', 4), ofType('video.deleted')),
        signed(messageId(), rank('a', 5), ofType('video.ranked')),
        signed(messageId(), '{"n": 6, "no": "key"}'),
        signed(messageId(), 'no JSON'),
      ]
      const replies = await Promise.all(sent.map((each) => edge.send('/cache', each)))
      assert.deepEqual([...new Set(replies.map(({ status }) => status))], [202])
      await receiver.until('three windows ended', () => receiver.at('/cache').length === 5)
      const arrivals = receiver.at('/cache')
      assert.deepEqual(
        arrivals.map(({ body }) => String(body)).sort(),
        [rank('b', 2), rank('a', 4), rank('a', 5), '{"n": 6, "no": "key"}', 'no JSON'].sort(),
      )
      const newest = arrivals.find(({ body }) => String(body) === rank('a', 5))
      assert.equal(newest?.headers['webhook-signature'], sent[4]?.headers['webhook-signature'])
      for (const arrival of arrivals) await openVerifier({ secret }).verify(arrival)
      await eventually('nothing is stored', async () => (await figures(edge, 'cache')).stored === 0)
    })

    await t.test('and the retry of an older message does not replace a newer one', async () => {
      const [older, newer] = [messageId(), messageId()]
      assert.equal((await edge.send('/cache', signed(newer, rank('late', 2)))).headers['sluice-edge'], 'stored')
      const late = await edge.send('/cache', signed(older, rank('late', 1)))
      assert.deepEqual([late.status, late.headers['sluice-edge']], [202, 'superseded'])
      const isLate = ({ body }: Arrival) => String(body).includes('late')
      await receiver.until('the newer came', () => receiver.at('/cache').some(isLate))
      assert.deepEqual(numbers(receiver.at('/cache').filter(isLate)), [2])
    })

    await t.test('and arrivals during a forward open the next window', async () => {
      const gate = Promise.withResolvers<void>()
      receiver.behave('/open', () => gate.promise.then(() => ({ status: 200 })))
      await edge.send('/open', signed(messageId(), rank('a', 1)))
      await receiver.until('the first is being forwarded', () => receiver.open.size > 0)
      await edge.send('/open', signed(messageId(), rank('a', 2)))
      await edge.send('/open', signed(messageId(), rank('a', 3)))
      gate.resolve()
      await receiver.until('the second window ended', () => receiver.at('/open').length === 2)
      assert.deepEqual(numbers(receiver.at('/open')), [1, 3])
    })

    await t.test('and a newer one that is being forwarded is not given up for an older one', async () => {
      const gate = Promise.withResolvers<void>()
      const answers = [gate.promise.then(() => ({ status: 500 }))]
      receiver.behave('/late', () => answers.shift() ?? { status: 200 })
      const [older, newer] = [messageId(), messageId()]
      await edge.send('/late', signed(newer, rank('a', 2)))
      await receiver.until('the newer is being forwarded', () => receiver.at('/late').length === 1)
      assert.equal((await edge.send('/late', signed(older, rank('a', 1)))).headers['sluice-edge'], 'superseded')
      gate.resolve()
      await receiver.until('it is forwarded again', () => receiver.at('/late').length === 2)
      assert.deepEqual(numbers(receiver.at('/late')), [2, 2])
    })

    await t.test('and a receiver that fails is tried again, with the newest', async () => {
      const answers = [{ status: 500 }, { status: 503, headers: { 'retry-after': '1' } }]
      receiver.behave('/shaky', () => answers.shift() ?? { status: 200 })
      await edge.send('/shaky', signed(messageId(), rank('a', 1)))
      await receiver.until('the first try failed', () => answers.length === 1)
      await edge.send('/shaky', signed(messageId(), rank('a', 2)))
      await eventually('nothing is stored', async () => (await figures(edge, 'shaky')).stored === 0)
      const forwarded = numbers(receiver.at('/shaky'))
      assert.deepEqual([forwarded.length, forwarded[0], forwarded.at(-1)], [3, 1, 2])
      assert.deepEqual((await edge.operate('GET', '/-/failures/shaky')).json, { failures: [] })
    })

    await t.test('and after its time a delivery is a failure that the operator reads and sends again', async () => {
      receiver.behave('/dead', () => ({ status: 500 }))
      const id = messageId()
      const sent = signed(id, rank('a', 1))
      await edge.send('/dead', sent)
      const [failure] = await eventually('a failure is kept', async () => {
        const { failures } = (await edge.operate('GET', '/-/failures/dead')).json as unknown as Listed
        return failures.length > 0 && failures
      })
      assert.deepEqual([failure?.id, failure?.reason, failure?.attempts], [id, 'the target answered 500', 1])
      const path = `/-/failures/dead/${failure?.failure}`
      assert.equal((await edge.send(path, { method: 'GET' })).status, 401)
      const { json } = await edge.operate('GET', path)
      assert.equal(Buffer.from(json.body as string, 'base64').toString(), rank('a', 1))
      assert.ok((json.headers as [string, string][]).some(([name, value]) => name === 'webhook-id' && value === id))

      receiver.behave('/dead', () => ({ status: 200 }))
      assert.equal((await edge.operate('POST', path)).status, 202)
      await receiver.until('it came', () => receiver.at('/dead').length === 2)
      const [, again] = receiver.at('/dead')
      assert.equal(again?.headers['webhook-signature'], sent.headers['webhook-signature'])
      assert.equal(String(again?.body), rank('a', 1))
      assert.equal((await edge.operate('POST', path)).status, 404)
      assert.equal((await edge.operate('GET', '/-/failures/dead/9-9')).status, 404)
      assert.equal((await edge.operate('GET', '/-/failures/dead/x')).status, 404)
      assert.equal((await edge.operate('GET', '/-/failures/nothing')).status, 404)
    })

    await t.test('and 410 is final', async () => {
      receiver.behave('/gone', () => ({ status: 410 }))
      await edge.send('/gone', signed(messageId(), rank('a', 1)))
      await eventually('a failure is kept', async () => (await figures(edge, 'gone')).failures === 1)
      assert.equal(receiver.at('/gone').length, 1)
    })

    await t.test('and a bounded number of failures is kept', async () => {
      receiver.behave('/kept', () => ({ status: 500 }))
      for (const key of ['a', 'b', 'c', 'd']) await edge.send('/kept', signed(messageId(), rank(key, 1)))
      await eventually('two were dropped', async () => {
        const { failures, droppedFailures } = await figures(edge, 'kept')
        return failures === 2 && droppedFailures === 2
      })
      const { failures } = (await edge.operate('GET', '/-/failures/kept')).json as unknown as Listed
      for (const { failure } of failures) {
        assert.equal((await edge.operate('DELETE', `/-/failures/kept/${failure}`)).status, 204)
      }
      assert.equal((await figures(edge, 'kept')).failures, 0)
    })

    await t.test('and a full shard refuses new kinds, and takes newer ones of its own', async () => {
      for (const key of ['a', 'b'])
        assert.equal((await edge.send('/small', signed(messageId(), rank(key, 1)))).status, 202)
      const full = await edge.send('/small', signed(messageId(), rank('c', 1)))
      assert.deepEqual([full.status, full.headers['retry-after']], [429, '3600'])
      assert.equal((await edge.send('/small', signed(messageId(), rank('a', 2)))).status, 202)
      assert.equal((await figures(edge, 'small')).stored, 2)
    })

    await t.test('unless it is not genuine', async () => {
      const good = signed(messageId(), rank('a', 1))
      assert.equal((await edge.send('/long', { ...good, body: rank('a', 2) })).status, 401)
      assert.equal((await figures(edge, 'long')).stored, 0)
    })
  })

  test('every delivery that was answered 202 arrives or gave way to a newer one, over kills', async (t) => {
    const receiver = await Receiver.listen(t)
    const edge = await Edge.start(t, {
      cache: { mode: 'coalesce', to: `${receiver.url}/cache`, key: '/video/id', windowSeconds: 1 },
    })
    const keys = ['a', 'b', 'c', 'd', 'e', 'f']
    const newest = new Map<string, number>()
    let n = 0
    for (let round = 0; round < 3; round++) {
      let isAlive = true
      const produce = async (key: string): Promise<void> => {
        while (isAlive) {
          const mine = ++n
          const reply = await edge.send('/cache', signed(messageId(), rank(key, mine))).catch(() => undefined)
          if (reply?.status === 202) newest.set(key, mine)
        }
      }
      const producers = keys.map(produce)
      const seen = receiver.arrivals.length
      // In one round the kill falls into forwards, which then have no answer.
      const gate = Promise.withResolvers<void>()
      if (round === 1) receiver.behave('/cache', () => gate.promise.then(() => ({ status: 200 })))
      await receiver.until('windows end', () => receiver.arrivals.length >= seen + 6)
      await edge.kill()
      isAlive = false
      gate.resolve()
      receiver.behave('/cache', () => ({ status: 200 }))
      await Promise.all(producers)
      // No request wakes the storage up: alarms outlive the process.
      await edge.start()
      await receiver.until('the newest of each key came', () => {
        const came = new Set(numbers(receiver.arrivals.filter(({ status }) => status === 200)))
        return [...newest].every(([key, last]) => came.has(last) || laterCame(receiver, key, last))
      })
    }
    assert.ok(receiver.arrivals.length < n, `${n} became ${receiver.arrivals.length}`)
  })
})

/** Whether a later delivery of the key came: its 202 was lost with the process that answered. */
function laterCame(receiver: Receiver, key: string, n: number): boolean {
  return receiver.arrivals.some(({ body, status }) => {
    const arrival = JSON.parse(body.toString())
    return status === 200 && arrival.video.id === key && arrival.n > n
  })
}
