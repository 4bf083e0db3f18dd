import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd } from '../e2e/at-end.ts'
import { Client } from '../e2e/client.ts'
import { eventually } from '../e2e/eventually.ts'
import { freePort } from '../e2e/free-port.ts'
import { pendingCount, sqlitePlace } from '../e2e/place.ts'
import { Program } from '../e2e/program.ts'
import { newFile, openFile } from './stores.ts'

/** Each of the first two subscribers dies at its fortieth; the third has the rest. */
const messages = 120

test('a subscriber that dies at work, and before its answer, does the work of every message exactly once', async (t) => {
  const place = await sqlitePlace(t)
  const program = await Program.start(t, 'serve', place.store)
  const client = new Client(program.api)
  atEnd(t, () => client.close())
  const secret = `whsec_${Buffer.alloc(24, 5).toString('base64')}`
  const port = await freePort()
  const file = newFile(t)
  const start = async (crash: 'work' | 'answer' | 'never') => {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'subscriber.ts'), file], {
      env: { ...process.env, WEBHOOK_SECRET: secret, PORT: String(port), CRASH: crash },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const exited = once(child, 'exit')
    atEnd(t, async () => {
      child.kill('SIGKILL')
      await exited
    })
    await once(child.stdout, 'data')
    return { exited }
  }
  const first = await start('answer')
  const database = openFile(file)
  atEnd(t, () => database.close())
  const works = () =>
    database
      .prepare('select id from work')
      .all()
      .map((row) => String(row.id))

  await client.createApplication('acme')
  // Retries come soon, so that the test does not wait for the backoff of the default.
  const patient = { retry: { waits: { kind: 'list', ms: Array(100).fill(500) } }, circuit: 'off' }
  await client.createEndpoint('acme', { url: `http://127.0.0.1:${port}/`, secret, ...patient })
  const ids: string[] = []
  for (let i = 0; i < messages; i++) {
    const outcome = await client.publish('acme', 'invoice.paid', Buffer.from(`{"invoice":${i}}`))
    assert.ok(outcome.state === 'accepted')
    ids.push(outcome.id)
  }
  assert.deepEqual(await first.exited, [null, 'SIGKILL'])
  assert.ok(works().length >= 40, 'it died after the work of the fortieth')
  const before = works().length
  assert.deepEqual(await (await start('work')).exited, [null, 'SIGKILL'])
  assert.ok(works().length < before + 40, 'the work that it died in left nothing behind')
  await start('never')
  await eventually('nothing is left to do', async () => (await pendingCount(place)) === 0)
  const states = await Promise.all(ids.map((id) => client.destinations('acme', id)))
  assert.ok(states.every(([destination]) => destination?.statusText === 'success'))
  assert.deepEqual(works().toSorted(), ids.toSorted())
  const answers = await Promise.all(ids.map((id) => client.attempts('acme', id)))
  const again = answers.filter((attempts) => attempts.length > 1)
  assert.ok(again.length > 0, 'some messages were sent again')
})
