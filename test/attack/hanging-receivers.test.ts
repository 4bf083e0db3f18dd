import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { Receiver } from '../e2e/receiver.ts'
import { dialects, isLong, Target } from './attack.ts'

const slots = isLong ? 64 : 32
/** Slots that endpoints which hang leave to the others. */
const kept = slots / 8
/** Applications with one endpoint that never answers: many times as many as there are slots. */
const hanging = isLong ? 5000 : 80
const deliveries = isLong ? 500 : 15

for (const dialect of dialects) {
  test(`${dialect}: ${hanging} applications whose receivers hang keep no healthy one waiting`, async (t) => {
    const receiver = await Receiver.listen(t)
    receiver.behave('/hang', () => new Promise(() => {}))
    // No attempt ends by its timeout while this runs: a slot that is taken stays taken.
    const target = await Target.start(t, dialect, { SLUICE_IN_FLIGHT: String(slots), SLUICE_TIMEOUT: '5m' })
    const { client } = target
    await client.createApplication('healthy')
    await client.createEndpoint('healthy', { url: `${receiver.url}/ok` })
    await client.publish('healthy', 'x', Buffer.from('{}'))
    await receiver.until('the first delivery', () => receiver.at('/ok').length === 1)

    await inParallel(hanging, 8, async (i) => {
      await client.createApplication(`hanging-${i}`)
      await client.createEndpoint(`hanging-${i}`, { uid: 'e', url: `${receiver.url}/hang` })
    })
    await target.measure('hanging receivers', async () => {
      await inParallel(hanging, 8, async (i) => {
        await client.publish(`hanging-${i}`, 'x', Buffer.from('{}'))
      })
      await receiver.until('they hold what they may hold', () => receiver.at('/hang').length >= slots - 2 * kept)
      for (let n = 1; n <= deliveries; n++) {
        await client.publish('healthy', 'x', Buffer.from('{}'))
        await receiver.until(`delivery ${n} while all others hang`, () => receiver.at('/ok').length > n)
      }
      const hung = receiver.at('/hang')
      assert.ok(hung.every(({ endedAt }) => endedAt === undefined))
      assert.ok(hung.length <= slots - kept, `${hung.length} of ${slots} slots are held`)
    })
    const why = await eventually('an endpoint that waits says why', async () => {
      const { text } = await target.call('GET', `/app/hanging-${hanging - 1}/endpoint/e/why`)
      const answer = JSON.parse(text)
      return answer.reason === 'crowded' ? answer : undefined
    })
    const shared = `All such endpoints together may use ${slots - kept} of the worker's ${slots} slots`
    assert.ok(why.detail.includes(shared), why.detail)
  })
}

async function inParallel(count: number, workers: number, work: (i: number) => Promise<void>): Promise<void> {
  let next = 0
  const loop = async () => {
    for (let i = next++; i < count; i = next++) await work(i)
  }
  await Promise.all(Array.from({ length: workers }, loop))
}
