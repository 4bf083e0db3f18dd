import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { test } from 'node:test'
import { runHere } from '../cli/program.ts'
import { openPlace } from '../e2e/place.ts'
import { Receiver } from '../e2e/receiver.ts'
import { embed } from '../library/embedded.ts'
import { testEncryptionKey } from '../store/test-vault.ts'
import { dialects, isLong, reportLine } from './attack.ts'

const messages = isLong ? 40 : 12
/** The time of a run, which is shorter than the timeout of the endpoint. */
const time = isLong ? '10s' : '6s'
const mostRuns = 10

/**
 * Before, four runs of 10 s behind this receiver made 64 requests: 16 messages were sent four times each, 24 never, no
 * attempt was recorded, and each run ended with "0 to retry" and exit code 0.
 */
for (const dialect of dialects) {
  test(`${dialect}: behind a receiver that hangs, each run of drain records all that it sent, and goes on`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    receiver.behave('/hangs', () => new Promise(() => {}))
    const sluice = await embed(t, place, { deliver: false })
    await sluice.applications.create({ name: 'A', uid: 'a' })
    await sluice.endpoints.create('a', { url: `${receiver.url}/hangs` })
    for (let i = 0; i < messages; i++) await sluice.publish('a', { eventType: 'x.y', payload: { i } })
    await sluice.close()

    const settings = {
      SLUICE_STORE: place.store,
      SLUICE_ENCRYPTION_KEY: testEncryptionKey,
      SLUICE_ALLOW_NETWORKS: '127.0.0.0/8',
      SLUICE_LOG_LEVEL: 'error',
    }
    const sent = () => Map.groupBy(receiver.arrivals, ({ headers }) => headers['webhook-id'])
    let runs = 0
    // On a machine that is busy, a run may have no time for any attempt.
    for (; sent().size < messages && runs < mostRuns; runs++) {
      const before = receiver.arrivals.length
      const { ended, out, err } = await runHere(['drain', '--for', time, '--json'], { directory: tmpdir() }, settings)
      const { givenUp, left } = JSON.parse(out)
      assert.equal(ended, 8, err)
      assert.equal(givenUp, receiver.arrivals.length - before)
      assert.ok(left >= messages - receiver.arrivals.length, `${left} are left`)
      const [recorded] = await place.query('select count(*) as n from attempt')
      assert.equal(Number(recorded?.n), receiver.arrivals.length)
    }
    const times = [...sent().values()].map(({ length }) => length)
    assert.equal(times.length, messages, `${times.length} of ${messages} messages were sent in ${runs} runs`)
    assert.ok(Math.max(...times) <= 2, `one was sent ${Math.max(...times)} times`)
    const requests = receiver.arrivals.length
    reportLine(t, { attack: 'drain, receiver hangs', store: dialect, runs, requests, recorded: requests, messages })
  })
}
