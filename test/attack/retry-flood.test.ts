import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { type Arrival, Receiver } from '../e2e/receiver.ts'
import { dialects, Target } from './attack.ts'

const perMinute = 30
const concurrency = 10

for (const dialect of dialects) {
  test(`${dialect}: a tenant cannot make Sluice hammer a server, whatever its endpoint sets`, async (t) => {
    const stranger = await Receiver.listen(t, { timed: true })
    stranger.behave('/login', () => ({ status: 500, headers: { 'retry-after': '0' } }))
    const target = await Target.start(t, dialect, { SLUICE_FAILURES_PER_MINUTE: String(perMinute) })
    await target.client.createApplication('a')
    await target.client.createEndpoint('a', {
      uid: 'e',
      url: `${stranger.url}/login`,
      concurrency,
      circuit: 'off',
      retry: { waits: { kind: 'list', ms: Array(100).fill(0) }, jitter: 'none' },
    })
    await target.measure('zero waits, a hundred retries, circuit off', async () => {
      for (let i = 0; i < 10; i++) await target.client.publish('a', 'x', Buffer.from('{}'))
      await eventually('the limit of failures is met', async () => {
        const { text } = await target.call('GET', '/app/a/endpoint/e/why')
        return JSON.parse(text).blockers.some(({ reason }: { reason: string }) => reason === 'failing')
      })
      await eventually('the next one has gone', () => stranger.arrivals.length > perMinute / 2)
      // Sending again by hand and closing the circuit by hand do not get round it.
      await target.call('POST', '/app/a/endpoint/e/circuit/reset')
      await target.call('POST', '/app/a/endpoint/e/recover', {
        body: { since: new Date(Date.now() - 3_600_000).toISOString() },
      })
      const before = stranger.arrivals.length
      await eventually('one more has gone', () => stranger.arrivals.length > before)
    })

    const { arrivals } = stranger
    for (const [i, first] of arrivals.entries()) {
      const inMinute = arrivals.slice(i).filter(({ at }) => at < first.at + 60_000).length
      // Attempts that begin within a minute end a little later: one more may come in the same minute.
      assert.ok(inMinute <= perMinute + 1, `${inMinute} requests in a minute; ${perMinute} may fail`)
    }
    const byMessage = Map.groupBy(arrivals, ({ headers }) => headers['webhook-id'])
    for (const [id, tries] of byMessage) {
      for (const [i, { at }] of tries.entries()) {
        const gap = i === 0 ? Number.POSITIVE_INFINITY : at - (tries[i - 1] as Arrival).notBefore
        assert.ok(gap >= 990, `${id} was tried again after ${gap} ms`)
      }
    }
  })
}
