import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client, type DestinationView } from './client.ts'
import { eventually } from './eventually.ts'
import { type Entry, Ledger } from './ledger.ts'
import { openPlace } from './place.ts'
import { longLease, Program } from './program.ts'
import { Receiver } from './receiver.ts'
import { startHere } from './server-here.ts'

const tries = 3

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`the answer of a receiver decides on ${dialect}`, async (t) => {
    const place = await openPlace(t, dialect)
    const first = await Program.start(t, 'serve', place.store)
    let client = new Client(first.api)
    atEnd(t, () => client.close())

    await t.test('410 holds what follows until the endpoint is enabled, across a kill', async (each) => {
      const receiver = await Receiver.listen(each)
      const ledger = new Ledger()
      await client.createApplication('acme')
      const gone = await ledger.subscribe(client, receiver, 'acme', '/gone', { concurrency: 1 })
      const control = await ledger.subscribe(client, receiver, 'acme', '/control')
      receiver.behave('/gone', () => ({ status: 410 }))

      const [lost] = await publish(1)
      await eventually('the endpoint is disabled', async () => {
        const { disabled, disabledReason } = await client.endpoint('acme', gone.endpoint)
        return disabled && disabledReason === 'gone'
      })
      const before = receiver.at('/gone').length
      await publish(5)
      await first.kill()
      const second = await startHere(t, 'serve', place.store, longLease)
      await client.close()
      client = new Client(second.api)
      const held = [...ledger.accepted.slice(1), ...(await publish(5))]

      // The other endpoint of the same messages has them all, so those for this one had every chance to come, too.
      await receiver.until('the control has everything', () => new Set(receiver.at('/control').map(id)).size === 11)
      assert.equal(receiver.at('/gone').length, before)
      assert.equal(new Set(receiver.at('/gone').map(id)).size, 1)
      for (const entry of held) assert.equal((await destination(entry, gone.endpoint))?.statusText, 'pending')
      await eventually('the control is recorded', async () => {
        const states = await Promise.all(held.map((entry) => destination(entry, control.endpoint)))
        return states.every((state) => state?.statusText === 'success')
      })

      receiver.behave('/gone', () => ({ status: 200 }))
      const { disabled, disabledReason } = await client.changeEndpoint('acme', gone.endpoint, { disabled: false })
      assert.deepEqual({ disabled, disabledReason }, { disabled: false, disabledReason: null })
      await receiver.until('what was held is released', () => new Set(receiver.at('/gone').map(id)).size === 11)
      await eventually('each has ended', async () => {
        const states = await Promise.all(held.map((entry) => destination(entry, gone.endpoint)))
        return states.every((state) => state?.statusText === 'success')
      })
      const end = await destination(lost as Entry, gone.endpoint)
      assert.deepEqual([end?.statusText, end?.nextAttempt], ['fail', null], 'the one that met the 410 is a dead letter')
      assert.equal(new Set(receiver.at('/gone').map(id)).size, 11, 'and is not sent again')
      ledger.audit(receiver)

      async function publish(count: number): Promise<Entry[]> {
        const before = ledger.entries.length
        await ledger.publishAll(client, 'acme', count)
        return ledger.entries.slice(before)
      }

      async function destination({ outcome }: Entry, endpoint: string): Promise<DestinationView | undefined> {
        const list = await client.destinations('acme', outcome.state === 'accepted' ? outcome.id : '')
        return list.find((view) => view.id === endpoint)
      }
    })

    await t.test(
      'a Retry-After brings the next attempt, and the later of both where the policy asks for it',
      async (each) => {
        const receiver = await Receiver.listen(each)
        await client.createApplication('retrying')
        const ledger = new Ledger()
        const hourly = { waits: { kind: 'list', ms: [3_600_000] }, jitter: 'none' }
        await ledger.subscribe(client, receiver, 'retrying', '/soon', { retry: hourly })
        const patient = await ledger.subscribe(client, receiver, 'retrying', '/later', {
          retry: { ...hourly, retryAfter: 'later' },
        })
        for (const path of ['/soon', '/later']) {
          receiver.behave(path, () =>
            receiver.at(path).length > 1 ? { status: 200 } : { status: 429, headers: { 'retry-after': '1' } },
          )
        }
        const { outcome } = await ledger.publish(client, 'retrying')
        const message = outcome.state === 'accepted' ? outcome.id : ''
        await receiver.until('the receiver gets it again when it asked for it', () => receiver.at('/soon').length === 2)
        const [first, second] = receiver.at('/soon')
        assert.ok((second?.at as number) - (first?.endedAt as number) >= 1000, 'and not before')
        const view = await eventually('the other attempt is recorded', async () => {
          const list = await client.destinations('retrying', message)
          return list.find(({ id, nextAttempt }) => id === patient.endpoint && nextAttempt !== null)
        })
        const inMs = Date.parse(String(view.nextAttempt)) - Date.now()
        assert.ok(inMs > 1_800_000, `the policy's own wait is longer: ${inMs} ms`)
        assert.equal(receiver.at('/later').length, 1)
      },
    )

    await t.test('a delivery that used up its attempts is a dead letter with its last answer', async (each) => {
      const receiver = await Receiver.listen(each)
      await client.createApplication('dying')
      const ledger = new Ledger()
      const retry = { waits: { kind: 'list', ms: [60, 120] }, jitter: 'none' }
      await ledger.subscribe(client, receiver, 'dying', '/broken', { retry, circuit: 'off' })
      let answered = 0
      receiver.behave('/broken', () => ({ status: 500 + (answered++ % 4) }))
      await ledger.publishAll(client, 'dying', 10)

      const dead = await eventually('all are dead letters', async () => {
        const rows = await place.query(
          `select reason, attempts, status, code from dead where app = (select key from application where uid = 'dying')`,
        )
        return rows.length === 10 ? rows : undefined
      })
      for (const { reason, attempts, code } of dead) {
        assert.deepEqual([reason, Number(attempts), code], ['exhausted', tries, 'refused'])
      }
      for (const { outcome } of ledger.accepted) {
        const message = outcome.state === 'accepted' ? outcome.id : ''
        const came = receiver.arrivals.filter((arrival) => id(arrival) === message)
        assert.equal(came.length, tries)
        for (const [i, waitMs] of [60, 120].entries()) {
          const waited = (came[i + 1]?.at as number) - (came[i]?.endedAt as number)
          assert.ok(waited >= waitMs, `attempt ${i + 2} came ${waited} ms after the answer to the one before`)
        }
        const attempts = await client.attempts('dying', message)
        const answers = attempts.toSorted((a, b) => a.attempt - b.attempt).map((view) => view.responseStatusCode)
        assert.deepEqual(
          answers,
          came.map(({ status }) => status),
        )
        const [view] = await client.destinations('dying', message)
        assert.deepEqual([view?.statusText, view?.nextAttempt], ['fail', null])
      }
      ledger.audit(receiver)
    })
  })
}

function id(arrival: { readonly headers: Readonly<Record<string, string>> }): string {
  return arrival.headers['webhook-id'] ?? ''
}
