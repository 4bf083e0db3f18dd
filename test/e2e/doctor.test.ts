import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { postgresPlace } from './place.ts'
import { apiKey, Program } from './program.ts'
import { Receiver } from './receiver.ts'

test('the doctor finds nothing in a busy fleet, and a worker that was killed', async (t) => {
  const place = await postgresPlace()
  const receiver = await Receiver.listen(t)
  const server = await Program.start(t, 'serve', place.store)
  const worker = await Program.start(t, 'worker', place.store)
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  const findings = async (): Promise<string[]> => {
    const response = await fetch(`${server.api}/doctor`, { headers: { authorization: `Bearer ${apiKey}` } })
    assert.equal(response.status, 200)
    const { findings } = (await response.json()) as { findings: { code: string; sentence: string }[] }
    // The disk of a machine that is busy with other tests may be slow.
    return findings.filter(({ code }) => code !== 'store_slow').map(({ code, sentence }) => `${code}: ${sentence}`)
  }
  await client.createApplication('acme')
  for (let i = 0; i < 8; i++) await client.createEndpoint('acme', { url: `${receiver.url}/${i}` })
  await eventually('the fleet is healthy', async () => (await findings()).length === 0)
  for (let round = 0; round < 5; round++) {
    await Promise.all(Array.from({ length: 40 }, () => client.publish('acme', 'x', Buffer.from('{}'))))
    assert.deepEqual(await findings(), [])
  }
  await worker.kill()
  // Its lanes may wait for a moment until the other process has them.
  const died = new RegExp(`^worker_died: Worker \\d+ \\(.*pid ${worker.pid}\\b.*\\) died`)
  await eventually('the death of the worker is all that is found', async () => {
    const found = await findings()
    return found.length === 1 && died.test(found[0] ?? '')
  })
})
