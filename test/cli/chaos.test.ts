import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, test } from 'node:test'
import { type Behaviour, behaviours, choose, seededRandom } from '../../src/cli/chaos.ts'
import { workplace } from './program.ts'

describe('chaos', () => {
  test('chooses by its shares, the same way for the same seed', () => {
    const shares = { success: 3, error: 1, limit: 0, slow: 0, hang: 0, drip: 0, reset: 0 }
    const draw = (seed: string) => {
      const random = seededRandom(seed)
      return Array.from({ length: 4000 }, () => choose('/', shares, random).behaviour)
    }
    assert.deepEqual(draw('a'), draw('a'))
    assert.notDeepEqual(draw('a'), draw('b'))
    const errors = draw('a').filter((behaviour) => behaviour === 'error').length
    assert.ok(Math.abs(errors - 1000) < 120, `${errors} of 4000`)
    assert.deepEqual(new Set(draw('a')), new Set<Behaviour>(['success', 'error']))
  })

  test('obeys a path without drawing, so that others get the sequence they would have got', () => {
    const none = () => assert.fail('drew')
    const shares = { success: 1, error: 0, limit: 0, slow: 0, hang: 0, drip: 0, reset: 0 }
    for (const behaviour of behaviours) assert.deepEqual(choose(`/${behaviour}`, shares, none), { behaviour })
    assert.deepEqual(choose('/error/503?x=1', shares, none), { behaviour: 'error', status: 503 })
    assert.deepEqual(
      choose('/errors', shares, () => 0.5),
      { behaviour: 'success' },
    )
  })

  test('misbehaves on the wire: status, Retry-After, reset, silence, drops', async () => {
    const program = workplace().run(
      'chaos --port 0 --seed x --retry-after 7 --error-status 502 --json --success 1 --slow-for 50ms',
    )
    const url = await program.says(/"listening":"([^"]+)"/)
    const post = (path: string) => fetch(`${url}${path}`, { method: 'POST', body: 'x', headers: { 'webhook-id': 'm' } })
    assert.equal((await post('')).status, 200)
    assert.equal((await post('error')).status, 502)
    const before = performance.now()
    assert.equal((await post('slow')).status, 200)
    assert.ok(performance.now() - before >= 45)
    assert.equal((await post('error/418')).status, 418)
    const limited = await post('limit')
    assert.deepEqual([limited.status, limited.headers.get('retry-after')], [429, '7'])
    await assert.rejects(post('reset'), (error: Error) => (error.cause as NodeJS.ErrnoException).code === 'ECONNRESET')

    const { port } = new URL(url)
    const silent = connect(Number(port), '127.0.0.1').on('error', () => {})
    silent.write('POST /hang HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n')
    await program.says(/"behaviour":"hang"/)
    assert.equal(silent.bytesRead, 0)
    const dripping = connect(Number(port), '127.0.0.1').on('error', () => {})
    dripping.write('POST /drip HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n')
    const drops: number[] = []
    dripping.on('data', (chunk) => drops.push(chunk.length))
    while (drops.length < 2) await once(dripping, 'data')
    assert.deepEqual(drops.slice(0, 2), [1, 1])
    silent.destroy()
    dripping.destroy()

    program.child.kill('SIGINT')
    assert.equal(await program.ended, 0)
    const last = JSON.parse(program.out.trim().split('\n').at(-1) ?? '')
    assert.deepEqual(last, { requests: 8, success: 1, error: 2, limit: 1, slow: 1, hang: 1, drip: 1, reset: 1 })
  })

  test('shows the path of each request', async () => {
    const program = workplace().run('chaos --port 0 --success 1', { NO_COLOR: '1' })
    const url = await program.says(/Misbehaving on (\S+)/)
    await fetch(`${url}error/418?x=1`, { method: 'POST', headers: { 'webhook-id': 'msg_7' } })
    await program.says(/ error {4}msg_7 {2}\/error\/418\?x=1\n/)
    program.child.kill('SIGINT')
    assert.equal(await program.ended, 0)
  })

  test('refuses a share that is none', async () => {
    const program = workplace().run('chaos --error many')
    assert.equal(await program.ended, 2)
    assert.match(program.err, /--error <SHARE>.*It must be a number from 0 on/)
  })
})
