import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { isMade } from '../../src/operations/auth.ts'
import { main, workplace } from './program.ts'

const shell = promisify(execFile)
const listening = /Listening on (http:\/\/\S+)/
/** The store that a server makes by default in its directory, for one within this process. */
const storeIn = (directory: string) => `sqlite:${join(directory, 'data/sluice.db')}`

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
    assert.ok(isMade('sk', key))
    assert.match(server.out, /Targets +public addresses over https, and 127.0.0.0\/8, ::1\/128 \(this machine/)
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
    assert.ok(!/sk_\w/.test(again.out))
    assert.doesNotMatch(again.out, /first event|npx/, 'the store has its first message')
    const answer = await fetch(`${address}/api/v1/app/demo`, { headers: { authorization: `Bearer ${key}` } })
    assert.equal(answer.status, 200)
    again.child.kill('SIGINT')
    assert.equal(await again.ended, 0)
  })

  test('on this machine prints a link that signs in once, which no log has, and none elsewhere', async () => {
    const { directory, begin } = workplace()
    const here = (args: string) => begin(`${args} --store ${storeIn(directory)}`)
    const server = here('serve --local --listen 127.0.0.1:0')
    const link = new URL(await server.says(/Dashboard +(http:\S+)/))
    const token = link.hash.replace('#signin=', '')
    const signIn = () =>
      fetch(`${link.origin}/api/v1/session`, { method: 'POST', headers: { authorization: `Bearer ${token}` } })
    const first = await signIn()
    assert.equal(first.status, 201)
    const [cookie = ''] = (first.headers.get('set-cookie') ?? '').split(';')
    assert.equal((await fetch(`${link.origin}/api/v1/app`, { headers: { cookie } })).status, 200)
    assert.equal((await signIn()).status, 401)
    const key = /^ {2}(sk_\w+)$/m.exec(server.out)?.[1] ?? ''
    const command = begin('dashboard', { SLUICE_URL: link.origin, SLUICE_API_KEY: key })
    assert.match(await command.says(/^(http:\S+)$/m), /\/#signin=signin_\w{36}$/)
    const list = begin('session list', { SLUICE_URL: link.origin, SLUICE_API_KEY: key })
    const session = await list.says(/(sess_\w+) +dashboard +admin/)
    const end = begin(`session end ${session}`, { SLUICE_URL: link.origin, SLUICE_API_KEY: key })
    assert.equal(await end.ended, 0)
    assert.equal((await fetch(`${link.origin}/api/v1/app`, { headers: { cookie } })).status, 401)
    const endAll = begin('session end --all', { SLUICE_URL: link.origin, SLUICE_API_KEY: key })
    assert.equal(await endAll.ended, 0)
    assert.equal(await begin('session end', { SLUICE_URL: link.origin, SLUICE_API_KEY: key }).ended, 2)
    server.stop('SIGTERM')
    assert.equal(await server.ended, 0)
    assert.ok(!server.err.includes(token), 'the link is in no log')

    const elsewhere = here('serve --listen 127.0.0.1:0')
    await elsewhere.says(listening)
    assert.ok(!elsewhere.out.includes('signin='))
    elsewhere.stop('SIGTERM')
    assert.equal(await elsewhere.ended, 0)
  })

  test('with a fixed key admits that one and makes none', async () => {
    const { directory, begin } = workplace()
    const server = begin(`serve --store ${storeIn(directory)}`, {
      SLUICE_LISTEN: '127.0.0.1:0',
      SLUICE_ADMIN_KEY: 'sk_fixed_0123456789',
    })
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
    server.stop('SIGTERM')
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
    assert.equal(
      server.err,
      `Cannot listen on 127.0.0.1:${port}: another process uses this port. Stop it, or choose another port.\n`,
    )
  })

  test('a start that fails leaves no directory, no key and no database', async () => {
    const { directory, run } = workplace()
    const { port } = taken.address() as AddressInfo
    assert.equal(await run(`serve --listen 127.0.0.1:${port}`).ended, 1)
    writeFileSync(join(directory, 'notes.txt'), 'no database')
    mkdirSync(join(directory, 'somewhere'))
    const refusals = [
      ['sqlite:./notes.txt', /notes.txt is not a SQLite database/],
      ['sqlite:./somewhere', /somewhere is a directory: name a file/],
      ['sqlite:./new/deep/', /new\/deep\/ is a directory/],
      ['postgres://127.0.0.1:1/x', /SLUICE_ENCRYPTION_KEY is not set/],
    ] as const
    for (const [store, reason] of refusals) {
      const server = run(['serve', '--listen', '127.0.0.1:0', '--store', store])
      assert.equal(await server.ended, 1, store)
      assert.match(server.err, reason)
    }
    assert.deepEqual(readdirSync(directory, { recursive: true }).sort(), ['notes.txt', 'somewhere'])
  })

  test('--local on an address that others can reach permits nothing and says what to do', async () => {
    const { directory, begin } = workplace()
    const server = begin(`serve --local --listen 0.0.0.0:0 --store ${storeIn(directory)}`)
    await server.says(listening)
    await server.says(/npx sluice send .*\n/)
    assert.match(server.out, /Warning: --local has no effect: .* listens on 0\.0\.0\.0\. .*--allow-networks 127/)
    assert.match(server.out, /Targets +public addresses over https\n/)
    assert.match(server.out, /Warning: The API listens on 0\.0\.0\.0 without TLS: .* set --public-url https:/)
    server.stop('SIGTERM')
    assert.equal(await server.ended, 0)
    const behind = begin(`serve --public-url https://h.example --listen 0.0.0.0:0 --store ${storeIn(directory)}`)
    await behind.says(listening)
    await behind.says(/npx sluice send .*\n/)
    assert.doesNotMatch(behind.out, /Warning/)
    behind.stop('SIGTERM')
    assert.equal(await behind.ended, 0)
  })

  test("a client's key in SLUICE_API_KEY never becomes the admin key of a store that made it", async () => {
    const { directory, begin } = workplace()
    const ask = async (address: string, method: string, path: string, key: string, body?: unknown) => {
      const type = body === undefined ? {} : { 'content-type': 'application/json' }
      const headers = { authorization: `Bearer ${key}`, ...type }
      const answer = await fetch(`${address}/api/v1${path}`, { method, headers, body: JSON.stringify(body) ?? null })
      return { status: answer.status, body: JSON.parse((await answer.text()) || 'null') }
    }
    const first = begin(`serve --listen 127.0.0.1:0 --store ${storeIn(directory)}`, {
      SLUICE_API_KEY: 'old_name_0123456789',
    })
    const address = await first.says(listening)
    await first.says(/npx sluice send .*\n/)
    assert.match(first.out, /Warning: .*old name, SLUICE_API_KEY .*Rename it to SLUICE_ADMIN_KEY/, 'for one release')
    await ask(address, 'POST', '/app', 'old_name_0123456789', { name: 'A', uid: 'a' })
    const make = async (scopes: string[]) =>
      (await ask(address, 'POST', '/api-key', 'old_name_0123456789', { name: 'k', scopes })).body
    const publisher = await make(['publish'])
    const revoked = await make(['admin'])
    assert.equal((await ask(address, 'DELETE', `/api-key/${revoked.id}`, 'old_name_0123456789')).status, 204)
    const { token } = (await ask(address, 'POST', '/auth/app-portal-access/a', 'old_name_0123456789', {})).body
    first.stop('SIGTERM')
    assert.equal(await first.ended, 0)

    for (const [key, status] of [
      [publisher.token, 403],
      [revoked.token, 401],
      [token, 403],
    ]) {
      const server = begin(`serve --listen 127.0.0.1:0 --store ${storeIn(directory)}`, { SLUICE_API_KEY: key })
      const at = await server.says(listening)
      await server.says(/npx sluice send .*\n/)
      assert.equal((await ask(at, 'GET', '/api-key', key)).status, status)
      assert.ok(!server.out.includes('Warning'))
      server.stop('SIGTERM')
      assert.equal(await server.ended, 0)
    }
  })

  test('a lost admin key is replaced straight in the store, also while the server runs', async () => {
    const { directory, begin, run } = workplace()
    const early = run('key create rescue --admin')
    assert.equal(await early.ended, 4)
    assert.match(early.err, /^There is no store at \.\/data\/sluice\.db\. Run this where the server runs, or name/)
    const server = begin(`serve --listen 127.0.0.1:0 --store ${storeIn(directory)}`)
    const address = await server.says(listening)
    const made = run('key create rescue --admin --json', { SLUICE_API_KEY: 'sk_something_else_0' })
    assert.equal(await made.ended, 0, made.err)
    const { token, scopes, name } = JSON.parse(made.out)
    assert.deepEqual([scopes, name], [['admin'], 'rescue'])
    const headers = { authorization: `Bearer ${token}` }
    const audit = await fetch(`${address}/api/v1/audit`, { headers })
    const { data } = (await audit.json()) as { data: { actor: string; action: string; after: unknown }[] }
    assert.deepEqual(
      data.map(({ actor, action }) => [actor, action]),
      [['command line', 'POST /api-key']],
    )
    assert.ok(!JSON.stringify(data).includes(token))
    assert.equal(await run('key create rescue --admin --scope read').ended, 2)
    server.stop('SIGTERM')
    assert.equal(await server.ended, 0)
  })

  test('asked to stop a second time exits at once, whatever is under way', async () => {
    const { run } = workplace()
    const server = run('serve --listen 127.0.0.1:0 --shutdown-limit 10m', { SLUICE_ADMIN_KEY: 'sk_fixed_0123456789' })
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
