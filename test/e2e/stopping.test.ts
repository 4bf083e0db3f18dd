import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { eventually } from './eventually.ts'
import { assertNoDuplicates, Ledger } from './ledger.ts'
import { openPlace, pendingCount } from './place.ts'
import { longLease, Program } from './program.ts'
import { Receiver } from './receiver.ts'
import { startHere } from './server-here.ts'

const paused = ['/paused-1', '/paused-2', '/paused-3']
const deleted = ['/deleted-1', '/deleted-2', '/deleted-3']
/** Answered at once; those that come later are answered when the test says so. */
const first = 3

for (const dialect of ['sqlite', 'postgres'] as const) {
  test(`${dialect}: a paused endpoint waits until it is resumed and a deleted one gets no more, in the lane of any worker`, async (t) => {
    const place = await openPlace(t, dialect)
    const receiver = await Receiver.listen(t)
    const ledger = new Ledger()
    const server = await startHere(t, 'serve', place.store, longLease)
    // On Postgres most lanes then belong to processes that hear of the change from the database alone.
    if (dialect === 'postgres') await Promise.all([1, 2].map(() => Program.start(t, 'worker', place.store, longLease)))
    const client = new Client(server.api)
    atEnd(t, () => client.close())
    await client.createApplication('acme')
    const endpoints = new Map<string, string>()
    const stopped = Promise.withResolvers<void>()
    for (const path of [...paused, ...deleted]) {
      receiver.behave(path, async () => {
        if (receiver.at(path).length > first) await stopped.promise
        return { status: 200 }
      })
      const { endpoint } = await ledger.subscribe(client, receiver, 'acme', path, { concurrency: 1 })
      endpoints.set(path, endpoint)
    }
    await ledger.subscribe(client, receiver, 'acme', '/control')
    await ledger.publishAll(client, 'acme', 20)
    const count = (path: string) => receiver.at(path).length
    await receiver.until('each gets some', () => [...endpoints.keys()].every((path) => count(path) > first))

    for (const path of paused) await client.pauseEndpoint('acme', endpoints.get(path) as string)
    for (const path of deleted) await client.deleteEndpoint('acme', endpoints.get(path) as string)
    const answered = new Map([...endpoints.keys()].map((path) => [path, count(path)]))
    await ledger.publishAll(client, 'acme', 10)
    await receiver.until('the control has everything', () => count('/control') === 30)
    stopped.resolve()
    await eventually('what was deleted has nothing waiting', async () => {
      const rows = await place.query(
        'select 1 from pending join endpoint on endpoint.key = pending.endpoint where endpoint.deleted_at is not null',
      )
      return rows.length === 0
    })
    for (const [path, before] of answered) {
      // The attempts that were under way, and those that began before the owner heard of it.
      assert.ok(count(path) <= before + 4, `${path} got ${count(path)}, ${before} of them before it was stopped`)
    }

    const silent = new Map(deleted.map((path) => [path, count(path)]))
    for (const path of paused) await client.resumeEndpoint('acme', endpoints.get(path) as string)
    await receiver.until('what waited is delivered', () => paused.every((path) => count(path) >= 30))
    await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)
    for (const [path, before] of silent) assert.equal(count(path), before, path)
    assertNoDuplicates(receiver)
  })
}
