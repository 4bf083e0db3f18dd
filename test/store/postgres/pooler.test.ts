import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openPostgresStore } from '../../../src/store/postgres/open.ts'
import { publishing } from '../../../src/store/postgres/publish-statement.ts'
import { openSessions } from '../../../src/store/postgres/sessions.ts'
import type { Publication } from '../../../src/store/publishing.ts'
import { pgbouncerVersion, startPgBouncer } from '../pgbouncer.ts'
import { context, newDatabase } from '../postgres-harness.ts'
import { TransactionPooler } from '../transaction-pooler.ts'

const skip = pgbouncerVersion === undefined ? 'PgBouncer is not installed' : false
const refused = { name: 'PoolerError', message: /connection pooler answers .* Name the server itself/ }

test('a pooler in transaction mode is refused, and nothing is set on its connections', async (t) => {
  const pooler = await TransactionPooler.start(await newDatabase())
  t.after(() => pooler.close())
  await assert.rejects(openPostgresStore(context, { url: pooler.url }), refused)
})

test('a message is undone when its commit would not be durable, whatever the connection was set to', async (t) => {
  const url = await newDatabase()
  const store = await openPostgresStore(context, { url })
  t.after(() => store.close())
  const { key: app } = await store.createApplication({ name: 'A', uid: 'a', throttleRate: null, metadata: {} })
  const publication: Publication = {
    app,
    version: (await store.subscriptions(app))?.version ?? 0,
    eventType: 'x',
    eventId: null,
    channels: null,
    body: Buffer.from('{}'),
    contentType: 'application/json',
    endpoints: [],
    delayMs: 0,
  }
  const relaxed = openSessions({ url, durable: false, connections: 1, onTrouble: () => {} })
  t.after(() => relaxed.end())
  const statement = publishing([publication], [{ key: 1, id: 'msg_1' }], [false])
  await assert.rejects(relaxed.run(...statement), { name: 'StoreTrouble', message: /not .*durable, and was undone/ })
  assert.equal(await store.hasMessages(), false)
  assert.equal((await store.publish([publication]))[0]?.state, 'accepted')
})

for (const mode of ['transaction', 'session', 'statement']) {
  test(`PgBouncer ${pgbouncerVersion} in ${mode} mode is refused`, { skip }, async (t) => {
    const pooler = await startPgBouncer(await newDatabase(), { pool_mode: mode })
    t.after(() => pooler.close())
    await assert.rejects(openPostgresStore(context, { url: pooler.url }), refused)
  })
}
