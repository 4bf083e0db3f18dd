import assert from 'node:assert/strict'
import { closeSync, copyFileSync, openSync, readFileSync, renameSync, statSync, unlinkSync, writeSync } from 'node:fs'
import { describe, type TestContext, test } from 'node:test'
import { eventually } from './eventually.ts'
import { sqlitePlace } from './place.ts'
import { apiKey, type ProcessOptions, Program } from './program.ts'

async function serve(t: TestContext, options: ProcessOptions = {}) {
  const place = await sqlitePlace(t)
  const server = await Program.start(t, 'serve', place.store, {}, options)
  const ask = async (method: string, path: string, body?: unknown) => {
    const answer = await fetch(`${server.api}${path}`, {
      method,
      headers: { authorization: `Bearer ${apiKey}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    return { status: answer.status, json: text === '' ? undefined : JSON.parse(text) }
  }
  await ask('POST', '/app', { name: 'A', uid: 'a' })
  const publish = async (text = 'x') => ask('POST', '/app/a/msg', { eventType: 'x', payload: { text } })
  assert.equal((await publish()).status, 202)
  return { server, ask, publish, path: place.files.path }
}

describe('a database file', () => {
  test('of a running server', async (t) => {
    const { server, ask, publish, path } = await serve(t)

    await t.test('is for its user alone, as all files beside it are, whatever the umask is', () => {
      for (const file of [path, `${path}-wal`, `${path}-shm`, `${path}-owner`]) {
        assert.equal((statSync(file).mode & 0o777).toString(8), '600', file)
      }
    })

    await t.test('that is deleted: no publish is answered 202 any more, and it is said everywhere', async () => {
      renameSync(path, `${path}.away`)
      const refused = await publish()
      assert.deepEqual([refused.status, refused.json.code], [503, 'unavailable'])
      assert.match(refused.json.detail, /database file was deleted while Sluice was running/)
      const health = await ask('GET', '/health')
      assert.deepEqual([health.status, health.json.database.status], [503, 'unhealthy'])
      assert.match(health.json.database.detail, /was deleted/)
      assert.equal((await ask('GET', '/health/ping')).status, 204, 'the process is alive')
      await eventually('the log says so', () => /NOTHING IS ACCEPTED.*was deleted/.test(server.logged))

      renameSync(`${path}.away`, path)
      assert.equal((await publish()).status, 202, 'the file is back')
      assert.equal((await ask('GET', '/health')).status, 200)
    })

    await t.test('that is replaced: nothing is accepted, and the new file stays as it was put there', async () => {
      const copy = `${path}.copy`
      copyFileSync(path, copy)
      const before = readFileSync(copy)
      renameSync(copy, path)
      for (let i = 0; i < 5; i++) {
        const refused = await publish()
        assert.equal(refused.status, 503)
        assert.match(refused.json.detail, /database file was replaced/)
      }
      assert.equal((await ask('GET', '/health')).status, 503)
      server.terminate()
      await server.exited
      assert.ok(readFileSync(path).equals(before))
    })
  })

  test('whose log is deleted: nothing is accepted', async (t) => {
    const { publish, path } = await serve(t)
    unlinkSync(`${path}-wal`)
    const refused = await publish()
    assert.equal(refused.status, 503)
    assert.match(refused.json.detail, /write-ahead log was deleted/)
  })

  test('that is damaged: health tells', async (t) => {
    const { ask, path } = await serve(t)
    const file = openSync(path, 'r+')
    writeSync(file, Buffer.alloc(100, 0xff), 0, 100, 0)
    closeSync(file)
    const health = await eventually('health is red', async () => {
      const answer = await ask('GET', '/health')
      return answer.status === 503 && answer
    })
    assert.match(health.json.database.detail, /damaged/)
  })

  test('on a full disk: publishes are refused, health tells, and the process lives', async (t) => {
    const { server, ask, publish } = await serve(t, { fileBlocks: 8192 })
    for (const bytes of [500_000, 20_000, 100]) {
      await eventually('the disk is full', async () => (await publish('x'.repeat(bytes))).status === 503)
    }
    await eventually('health is red', async () => (await ask('GET', '/health')).status === 503)
    assert.equal((await ask('GET', '/health/ping')).status, 204)
    assert.ok(server.isRunning)
  })
})
