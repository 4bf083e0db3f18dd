import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { workplace } from './program.ts'

test('app, endpoint and send work on a file without a server, and beside one', async () => {
  const { directory, begin } = workplace()
  const env = { SLUICE_ALLOW_NETWORKS: '127.0.0.0/8', SLUICE_ALLOW_HTTP: 'true' }
  const run = async (args: readonly string[], code = 0) => {
    const begun = begin(args, env)
    assert.equal(await begun.ended, code, begun.err)
    return code === 0 ? begun.out : begun.err
  }
  const path = join(directory, 'shop.db')
  assert.match(await run(['app', 'list', '--store', path], 4), /There is no store at/)
  await run(['migrate', '--store', `sqlite:${path}`])
  await run(['app', 'create', 'Shop', '--uid', 'shop', '--store', path])
  await run(['endpoint', 'create', 'shop', 'http://127.0.0.1:9/', '--uid', 'main', '--store', `sqlite:${path}`])
  const bytes = '{"n": 1.0,  "big": 9007199254740993}'
  await run(['send', 'shop', 'cart.changed', bytes, '--store', path])
  assert.match(await run(['send', 'nobody', 'cart.changed', '{}', '--store', path], 4), /There is no application/)
  const endpoints = JSON.parse(await run(['endpoint', 'list', 'shop', '--store', path, '--json']))
  assert.deepEqual(
    endpoints.map(({ uid }: { uid: string }) => uid),
    ['main'],
  )
  const server = begin(['serve', '--store', `sqlite:${path}`, '--listen', '127.0.0.1:0'], env)
  await server.says(/Listening on (\S+)/)
  await run(['send', 'shop', 'cart.changed', '{"beside":1}', '--store', path])
  server.stop('SIGTERM')
  await server.ended
  using db = new DatabaseSync(path, { readOnly: true })
  const bodies = db.prepare('select body from message order by key').all()
  assert.deepEqual(
    bodies.map(({ body }) => Buffer.from(body as Uint8Array).toString()),
    [bytes, '{"beside":1}'],
  )
})
