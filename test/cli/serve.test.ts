import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { isApiKey } from '../../src/operations/auth.ts'
import { main, workplace } from './program.ts'

const shell = promisify(execFile)
const listening = /Listening on (http:\/\/\S+)/

describe('serve', () => {
  let taken: Server
  before(async () => {
    taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
  })
  after(() => taken.close())

  test('at first start makes a key, and the commands it prints deliver a first event as they stand', async () => {
    const { directory, run } = workplace()
    const server = run('serve --local --listen 127.0.0.1:0')
    await server.says(/npx sluice send .*\n/)
    const exported = [...server.out.matchAll(/^export (\w+)=(\S+)$/gm)].map(([, name, value]) => [name, value] as const)
    assert.deepEqual(
      exported.map(([name]) => name),
      ['SLUICE_URL', 'SLUICE_API_KEY'],
    )
    const env = { ...process.env, ...Object.fromEntries(exported) }
    const [listen, send] = [...server.out.matchAll(/^npx sluice (.*)$/gm)].map(([, args]) => args as string)
    assert.equal(listen, 'listen --app demo')
    const readme = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8')
    for (const args of [listen, send]) assert.ok(readme.includes(`\nnpx sluice ${args}\n`), 'the readme says the same')
    // Only the receiver's port is another: the printed one may be taken on this machine.
    const listener = run(`${listen} --port 0`, Object.fromEntries(exported))
    await listener.says(/Waiting for messages/)
    const { stdout } = await shell('sh', ['-ec', `"$NODE" "$MAIN" ${send}`], {
      env: { ...env, NODE: process.execPath, MAIN: main },
      cwd: directory,
    })
    const [, message] = /^Accepted as (msg_\w+)$/m.exec(stdout) ?? []
    await listener.says(new RegExp(`✓ verified  ${message}\\n +\\{\\n +"hello": "world"\\n +\\}\\n`))
    listener.child.kill('SIGINT')
    assert.equal(await listener.ended, 0)
    assert.match(listener.out, /deleted\n1 request, 1 verified\.\n$/)

    const key = /^ {2}(sk_\w+)$/m.exec(server.out)?.[1] ?? ''
    assert.ok(isApiKey(key))
    assert.match(server.out, /Targets public addresses over https, and 127.0.0.0\/8, ::1\/128 \(this machine/)
    assert.ok(existsSync(join(directory, 'data/sluice.db')))
    server.child.kill('SIGTERM')
    assert.equal(await server.ended, 0)
    for (const file of ['data/sluice.db', 'data/sluice.db-wal']
      .map((name) => join(directory, name))
      .filter(existsSync)) {
      assert.ok(!readFileSync(file).includes(key), 'the key itself is not in the store')
    }
    assert.ok(!server.err.includes(key), 'nor in the log')

    const again = run('serve --listen 127.0.0.1:0')
    const address = await again.says(listening)
    await again.says(/npx sluice send .*\n/)
    assert.ok(!/sk_\w/.test(again.out) && again.out.includes('export SLUICE_API_KEY=sk_…'))
    assert.match(again.out, /npx sluice endpoint create demo https:/, 'this machine is no target without --local')
    const answer = await fetch(`${address}/api/v1/app/demo`, { headers: { authorization: `Bearer ${key}` } })
    assert.equal(answer.status, 200)
    again.child.kill('SIGINT')
    assert.equal(await again.ended, 0)
  })

  test('with a fixed key admits that one and makes none', async () => {
    const { run } = workplace()
    const server = run('serve', { SLUICE_LISTEN: '127.0.0.1:0', SLUICE_API_KEY: 'sk_fixed_0123456789' })
    const address = await server.says(listening)
    const answer = await fetch(`${address}/api/v1/app`, { headers: { authorization: 'Bearer sk_fixed_0123456789' } })
    assert.equal(answer.status, 200)
    assert.ok(!/sk_\w/.test(server.out) && !server.out.includes('fixed'))
    // Without --local, this machine is no target.
    const post = {
      method: 'POST',
      headers: { authorization: 'Bearer sk_fixed_0123456789', 'content-type': 'application/json' },
    }
    await fetch(`${address}/api/v1/app`, { ...post, body: '{"name":"A","uid":"a"}' })
    const refused = await fetch(`${address}/api/v1/app/a/endpoint`, { ...post, body: '{"url":"http://127.0.0.1:9/"}' })
    assert.equal(refused.status, 422)
    server.child.kill('SIGTERM')
    assert.equal(await server.ended, 0)
  })

  test('on a file that another process owns says who that is and exits with 3; once that one is killed, it starts', async () => {
    const { run } = workplace()
    const first = run('serve --listen 127.0.0.1:0')
    await first.says(listening)
    const second = run('serve --listen 127.0.0.1:0')
    assert.equal(await second.ended, 3)
    assert.match(second.err, new RegExp(`owned by sluice serve \\(pid ${first.child.pid} on .*, listening on 127`))
    assert.doesNotMatch(second.err, /\n +at /)
    first.child.kill('SIGKILL')
    await first.ended
    const third = run('serve --listen 127.0.0.1:0')
    await third.says(listening)
    third.child.kill('SIGTERM')
    assert.equal(await third.ended, 0)
  })

  test('on an address that is taken says so and exits with 1', async () => {
    const { run } = workplace()
    const { port } = taken.address() as AddressInfo
    const server = run(`serve --listen 127.0.0.1:${port}`)
    assert.equal(await server.ended, 1)
    assert.equal(server.err, `Cannot listen on 127.0.0.1:${port}: another process uses this port.\n`)
  })

  test('asked to stop a second time exits at once, whatever is under way', async () => {
    const { run } = workplace()
    const server = run('serve --listen 127.0.0.1:0 --shutdown-limit 10m', { SLUICE_API_KEY: 'sk_fixed_0123456789' })
    const address = new URL(await server.says(listening))
    // A request that never ends keeps the first shutdown waiting.
    const socket = connect(Number(address.port), '127.0.0.1')
    socket.on('error', () => {})
    socket.write(
      'POST /api/v1/app HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk_fixed_0123456789\r\ncontent-length: 9\r\n',
    )
    socket.write('content-type: application/json\r\nexpect: 100-continue\r\n\r\n')
    // The server has it once it asks for the body, of which it gets one byte of nine.
    await once(socket, 'data')
    socket.write('{')
    server.child.kill('SIGTERM')
    while (!server.err.includes('"stopping"'))
      await once(server.child.stderr as NonNullable<typeof server.child.stderr>, 'data')
    server.child.kill('SIGTERM')
    assert.equal(await server.ended, 143)
    socket.destroy()
  })
})
