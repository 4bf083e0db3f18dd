import { createInterface } from 'node:readline'
import { systemClock } from '../../../src/runtime/clock.ts'
import { openSqliteStore } from '../../../src/store/sqlite/open.ts'
import { contextWith } from '../sqlite-harness.ts'

// A process of its own that opens a file, says so, and carries out commands until it is killed or its input ends.
//   node publisher.ts PATH owner|guest
const [path = '', role = ''] = process.argv.slice(2)
const store = await openSqliteStore(contextWith(systemClock), { path, role: role === 'owner' ? 'owner' : 'guest' })
if (role === 'owner') await store.join({ leaseMs: 60_000, description: `pid ${process.pid} for the test` })
console.log('open')

for await (const line of createInterface({ input: process.stdin })) {
  if (line === 'publish') {
    const app = await store.findApplication('acme')
    const subscriptions = app && (await store.subscriptions(app.key))
    if (!app || !subscriptions) throw new Error('the test made no application')
    const [published] = await store.publish([
      {
        app: app.key,
        version: subscriptions.version,
        eventType: 'a.b',
        eventId: null,
        channels: null,
        body: new Uint8Array([1]),
        contentType: 'text/plain',
        endpoints: subscriptions.list.map((subscription) => subscription.endpoint),
        delayMs: 0,
      },
    ])
    console.log(published?.state)
  }
  const [command, ...names] = line.split(' ')
  if (command === 'once') {
    const app = await store.findApplication('acme')
    const subscriptions = app && (await store.subscriptions(app.key))
    if (!app || !subscriptions) throw new Error('the test made no application')
    const answers = await store.publish(
      names.map((name) => ({
        ...{ app: app.key, version: subscriptions.version, eventType: 'a.b', eventId: null, channels: null },
        ...{ body: Buffer.from(name), contentType: 'text/plain', endpoints: [], delayMs: 0 },
        once: [{ hash: `hash of ${name}`, fingerprint: '', ttlMs: 24 * 60 * 60 * 1000 }],
      })),
    )
    console.log(answers.map(({ state }) => state).join(' '))
  }
  if (line === 'fold') {
    while (await store.foldHistory(1000, 3)) console.log('folded')
    console.log('done')
  }
}
await store.close()
