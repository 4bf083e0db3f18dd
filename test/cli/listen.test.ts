import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { before, describe, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { type Served, served, workplace } from './program.ts'

const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`

describe('listen alone', () => {
  test('verifies with the given secret, prints what arrives, and says what is wrong', async () => {
    const program = workplace().run(`listen --port 0 --secret ${secret} --status 202`)
    const url = await program.says(/Listening on (\S+)/)
    await program.says(/Waiting/)
    const post = (id: string, body: string, sign: boolean) => {
      const at = new Date()
      const headers = {
        'webhook-id': id,
        'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
        'webhook-signature': sign ? new Webhook(secret).sign(id, at, body) : 'v1,nonsense',
      }
      return fetch(url, { method: 'POST', headers, body })
    }
    assert.equal((await post('msg_1', '{"n":1.0}', true)).status, 202)
    await program.says(/✓ verified {2}msg_1\n {10}\{\n {12}"n": 1\.0\n {10}\}\n/)
    await post('msg_1', '{"n":1.0}', true)
    await program.says(/✓ verified {2}msg_1 {2}again\n/)
    assert.equal((await post('msg_2', 'plain \u001b[31mtext', false)).status, 401, 'a wrong signature is refused')
    await program.says(/✗ the signature is wrong {2}msg_2\n {10}plain ·\[31mtext\n/)
    await fetch(`${url}path`, { method: 'PUT', body: new Uint8Array([0xff, 0]) })
    await program.says(/✗ not signed {2}\(no webhook-id\) {2}PUT \/path\n {10}\(2 bytes that are not text\)\n/)
    const at = new Date()
    const svix = {
      'svix-id': 'msg_5',
      'svix-timestamp': String(Math.floor(at.getTime() / 1000)),
      'svix-signature': new Webhook(secret).sign('msg_5', at, '{}'),
    }
    await fetch(url, { method: 'POST', headers: svix, body: '{}' })
    await program.says(/✓ verified {2}msg_5\n/)
    program.child.kill('SIGINT')
    assert.equal(await program.ended, 0)
    assert.match(program.out, /5 requests, 3 verified\.\n$/)
    assert.ok(!program.out.includes('\u001b'), 'no colours elsewhere than on a terminal')
  })

  test('prints JSON lines for programs', async () => {
    const program = workplace().begin(`listen --port 0 --json --host 127.0.0.1`)
    const url = await program.says(/"listening":"([^"]+)"/)
    await fetch(url, { method: 'POST', body: new Uint8Array([0xff]) })
    await program.says(/\n.*"bodyBase64":"\/w=="/)
    const { method, path, id } = JSON.parse(program.out.trim().split('\n')[1] ?? '')
    assert.deepEqual([method, path, id], ['POST', '/', ''])
    program.stop('SIGTERM')
    assert.equal(await program.ended, 0)
  })

  test('says when the port is taken or the secret is none', async (t) => {
    const { begin } = workplace()
    const other = createServer().listen(0, '127.0.0.1')
    t.after(() => other.close())
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    const taken = begin(`listen --port ${port}`)
    assert.equal(await taken.ended, 1)
    assert.equal(
      taken.err,
      `Cannot listen on 127.0.0.1:${port}: another process uses this port. Stop it, or choose another port.\n`,
    )
    const wrong = begin('listen --port 0 --secret sesame')
    assert.equal(await wrong.ended, 2)
    assert.match(
      wrong.err,
      /^--secret: The secret cannot be used for the profile standard\. Use the secret of the endpoint: whsec_/,
    )
  })
})

describe('listen for an application', () => {
  const where = workplace()
  let place: Served
  before(async () => {
    place = await served(where)
  })

  test('makes the application and the endpoint, verifies, and leaves no endpoint behind', async () => {
    const { begin, env, sluice, json } = place
    const listener = begin('listen --app demo --port 0', env)
    await listener.says(/Endpoint {2}listen-\d+ of demo on http/)
    await listener.says(/Waiting/)
    const { id } = await json(['send', 'demo', 'video.trending', '{"id":9007199254740993}'])
    await listener.says(new RegExp(`✓ verified {2}${id}\\n {10}\\{\\n {12}"id": 9007199254740993\\n`))
    listener.stop('SIGINT')
    assert.equal(await listener.ended, 0)
    assert.match(await sluice('endpoint list demo'), /^No endpoints\. Create one: sluice endpoint create demo URL/)
  })

  test('verifies by another profile, under the names the application has', async () => {
    const { begin, env, json } = place
    await json(
      'app create Named --uid named --signature-header id=X-VVV-Id --signature-header signature=X-VVV-Signature',
    )
    const listener = begin('listen --app named --port 0 --signature timestamped', env)
    await listener.says(/Waiting/)
    const { id } = await json(['send', 'named', 'video.trending', '{"n":1.0}'])
    await listener.says(new RegExp(`✓ verified {2}${id}\\n {10}\\{\\n {12}"n": 1\\.0\\n`))
    listener.stop('SIGINT')
    assert.equal(await listener.ended, 0)
  })

  test('with --keep pauses its endpoint, so that what is sent meanwhile arrives the next time', async () => {
    const { begin, env, sluice, json } = place
    const first = begin('listen --app kept --port 0 --keep --event-type a.*', env)
    const port = await first.says(/listen-(\d+)/)
    await first.says(/Waiting/)
    first.stop('SIGINT')
    assert.equal(await first.ended, 0)
    assert.match(await sluice('endpoint list kept'), /listen-\d+ .* a\.\* .* paused$/m)
    await json('send kept b.c {}')
    const { id } = await json('send kept a.b {}')
    const second = begin(`listen --app kept --port ${port}`, env)
    await second.says(new RegExp(`✓ verified {2}${id}`))
    second.stop('SIGINT')
    assert.equal(await second.ended, 0)
    assert.match(second.out, /\n1 request, 1 verified\.\n$/)
  })

  test('on a server that may not deliver to this machine says what to do', async () => {
    const strict = await served(workplace(), [])
    const listener = strict.begin('listen --app demo --port 0', strict.env)
    assert.equal(await listener.ended, 2)
    assert.match(
      listener.err,
      /^Invalid request:\n {2}- url: The address 127\.0\.0\.1 is not public\. The operator can permit it with --local on its own machine, or with allowNetworks \(such as SLUICE_ALLOW_NETWORKS=127\.0\.0\.1\)\.\n$/,
      'one problem for one cause',
    )
  })
})
