import assert from 'node:assert/strict'
import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { runHere, type Served, served, workplace } from './program.ts'

const otherKey = `other:${Buffer.alloc(32, 7).toString('base64')}`

describe('sluice doctor', () => {
  const place = workplace()
  let s: Served

  before(async () => {
    s = await served(place)
    await s.sluice('app create Acme --uid acme')
  })

  /** Runs it to whatever end, without the variables of the server. */
  const bare = (args: string) => runHere(args.split(' '), place, {})

  test('ends with 0 on a healthy system', async () => {
    assert.deepEqual(await s.try('doctor'), { ended: 0, out: 'Healthy. No deliveries wait.\n', err: '' })
  })

  test('ends with 1 on a warning, and prints the command that helps', async () => {
    await s.sluice('endpoint create acme http://127.0.0.1:9/ --uid main')
    await s.sluice('endpoint pause acme main')
    await s.sluice(['send', 'acme', 'x.y', '{}'])
    const { ended, out } = await s.try('doctor')
    assert.equal(ended, 1)
    assert.match(
      out,
      /^1 finding\. 1 delivery waits for main of acme\.\n\nwarning {3}endpoint_paused\n {2}1 delivery waits for main/,
    )
    assert.match(out, /\n {2}\$ sluice endpoint resume acme main\n$/)
    const json = await s.try('doctor --json')
    assert.equal(json.ended, 1)
    const { status, findings } = JSON.parse(json.out)
    assert.deepEqual([status, findings[0].code, findings[0].evidence.waiting], ['warning', 'endpoint_paused', 1])
  })

  test('watches whether depth falls, until nothing is wrong or the time is over', async () => {
    const steady = await s.try('doctor --watch --every 1s --for 2s')
    assert.equal(steady.ended, 1)
    assert.match(steady.out, /\d\d:\d\d:\d\d {2}1 delivery waits: depth stays the same\.\n/)
    const lines = await s.try('doctor --watch --every 1s --for 1s --json')
    const last = JSON.parse(lines.out.trimEnd().split('\n').at(-1) as string)
    assert.deepEqual([last.trend.direction, last.trend.perSecond], ['steady', 0])
    await s.sluice('endpoint delete acme main --yes')
    const { ended, out } = await s.try('doctor --watch --every 1s')
    assert.equal(ended, 0)
    assert.match(out, /No deliveries wait\.\n$/)
  })

  test('ends with 2 when the server does not answer, and with 5 for a wrong key', async () => {
    const { ended, out } = await bare('doctor --url http://127.0.0.1:9 --key x')
    assert.equal(ended, 2)
    assert.match(out, /critical {2}server_unreachable\n {2}Cannot reach the server at http:\/\/127\.0\.0\.1:9/)
    assert.match(out, /\$ sluice doctor --on-store/)
    assert.equal((await bare(`doctor --url ${s.url} --key wrong`)).ended, 5)
  })

  test('examines the store itself with --on-store', async () => {
    await s.sluice('endpoint create acme http://127.0.0.1:9/ --uid sealed')
    const store = `--store sqlite:${join(place.directory, 'data/sluice.db')}`
    const { ended, out } = await bare(`doctor --on-store ${store} --json`)
    assert.deepEqual([ended, JSON.parse(out).status], [0, 'healthy'])
    assert.equal((await bare('doctor --on-store --store sqlite:./nowhere.db')).ended, 4)
    const sealed = await bare(`doctor --on-store ${store} --encryption-key ${otherKey} --json`)
    assert.deepEqual([sealed.ended, JSON.parse(sealed.out).findings[0].code], [2, 'encryption_key_missing'])
    const gone = await bare('doctor --on-store --store postgres://127.0.0.1:1/none --encryption-key '.concat(otherKey))
    assert.equal(gone.ended, 2)
    assert.match(gone.out, /critical {2}store_down\n {2}The store takes no writes: /)
  })

  test('ends with 2 when the store of the server is down', async () => {
    const path = join(place.directory, 'data/sluice.db')
    await rename(path, `${path}.gone`)
    const { ended, out } = await s.try('doctor')
    await rename(`${path}.gone`, path)
    assert.equal(ended, 2)
    assert.match(out, /critical {2}store_down\n {2}The store takes no writes: The database file was deleted/)
  })
})
