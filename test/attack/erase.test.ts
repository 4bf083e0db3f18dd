import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { dialects, isLong, Target } from './attack.ts'

const messages = isLong ? 100_000 : 400
/** Messages of a mebibyte, whose payloads are read and rewritten. */
const large = isLong ? 100 : 4
const perBatch = isLong ? 500 : 200

for (const dialect of dialects) {
  test(`${dialect}: erasing and exporting a person with very many messages makes no other client wait`, async (t) => {
    const target = await Target.share(t, dialect)
    const call = async (method: string, path: string, body?: unknown) => {
      const { status, text } = await target.call(method, path, { body, timeoutMs: 600_000 })
      assert.ok(status < 300, `${path}: ${status} ${text.slice(0, 300)}`)
      return text
    }
    const app = await target.newApplication()
    for (const uid of ['one', 'two']) {
      await call('POST', `/app/${app}/endpoint`, { uid, url: 'http://127.0.0.1:9/', maxWaiting: 1_000_000 })
      await call('POST', `/app/${app}/endpoint/${uid}/pause`)
    }
    const message = (text: string) => ({ eventType: 'x', payload: { user: { id: 'ann' }, text } })
    // The first half is published before the pointers are set, and found by reading it.
    for (let sent = 0; sent < messages; sent += perBatch) {
      if (sent === messages / 2) await call('PATCH', `/app/${app}`, { subjectPointers: ['/user/id', '/list/*/id'] })
      await call('POST', `/app/${app}/msg/batch`, { messages: Array.from({ length: perBatch }, () => message('x')) })
    }
    const list = Array.from({ length: 9000 }, (_, id) => ({ id: `p${id}`.padEnd(100, '-') }))
    for (let i = 0; i < large; i++) {
      await call('POST', `/app/${app}/msg`, { eventType: 'x', payload: { user: { id: 'ann' }, list } })
    }
    const erase = async (waiting: string, subject: string) => {
      const { id } = JSON.parse(await call('POST', `/app/${app}/subject/erase`, { subject, waiting }))
      await eventually(
        'the erasure ends',
        async () => JSON.parse(await call('GET', `/app/${app}/erasure/${id}`)).state === 'finished',
        600_000,
      )
      return JSON.parse(await call('GET', `/app/${app}/erasure/${id}`)).report.erased
    }
    await target.measure('exporting a person', async () => {
      const lines = (await call('POST', `/app/${app}/subject/export`, { subject: 'ann' })).trim().split('\n')
      assert.equal(JSON.parse(lines.at(-1) as string).messages, messages + large)
    })
    const began = performance.now()
    await target.measure('erasing a person, to be delivered without', async () => {
      const { rewritten } = await erase('deliver-without', 'p8999'.padEnd(100, '-'))
      assert.equal(rewritten, large)
    })
    await target.measure('erasing a person', async () => {
      const { messages: erased, cancelled } = await erase('cancel', 'ann')
      assert.deepEqual([erased, cancelled], [messages, 2 * messages])
    })
    t.diagnostic(`erased ${messages} messages in ${Math.round(performance.now() - began)} ms`)
  })
}
