import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { before, describe, test } from 'node:test'
import { main, type Served, served, workplace } from './program.ts'

describe('deleting for good, and sending many things again', () => {
  const where = workplace()
  let place: Served
  before(async () => {
    place = await served(where)
    await place.sluice('app create Acme --uid acme')
    await place.sluice('endpoint create acme https://example.com/hook --uid main')
    await place.sluice('region create acme eu')
    await place.sluice(['schedule', 'create', 'acme', '30 7 * * *', 'a.b', '{}', '--uid', 'daily', '--paused'])
    await place.sluice(['event-type', 'create', 'a.b', 'Anything'])
  })

  test('asks on a terminal, names what goes, and changes nothing without a yes', async () => {
    const key = await place.json('key create ci --scope read')
    const asked: [string, RegExp][] = [
      ['app delete acme', /^Delete application acme \(Acme\) with 1 endpoint and their waiting deliveries\? \[y\/N\] /],
      [
        'endpoint delete acme main',
        /^Delete endpoint main \(https:\/\/example\.com\/hook\) of acme with 0 waiting deliveries\? /,
      ],
      ['region delete acme eu', /^Delete the secret of region eu of acme\? Its pseudonyms cannot be computed again\. /],
      [
        'schedule delete acme daily',
        /^Delete schedule daily of acme \(30 7 \* \* \* UTC, a\.b\)\? Its messages are kept/,
      ],
      ['event-type delete a.b --expunge', /^Delete event type a\.b with its schemas, for all applications\? /],
      [`key revoke ${key.id}`, /^Revoke key key_\w+ \(ci, read\) and end the portal links that it made\? /],
      [
        'dead purge acme --all',
        /^Delete 0 dead letters of acme for good\? `sluice dead export acme` saves them first\. /,
      ],
      ['dead replay acme --all --per-second 5', /^Send 0 dead letters of acme again, at most 5 a second\? \[y\/N\] /],
      [
        'recover acme main --since 1h',
        /^Send 0 failed messages to main of acme again, as fast as the limits of each endpoint allow\? /,
      ],
      ['recover acme main --since 1h --missing', /^Send those of 0 messages that main of acme never received, /],
      ['dead purge acme msg_1', /^Delete the dead letters of message msg_1 of acme for good\? /],
    ]
    for (const [args, question] of asked) {
      for (const answer of ['', 'n', 'yup']) {
        const { ended, out, err } = await place.try(args, answer)
        assert.match(err, question)
        assert.deepEqual([ended, out, err.endsWith('Nothing was changed.\n')], [1, '', true], args)
      }
    }
    await place.sluice('app get acme')
    assert.match(await place.sluice('key list'), / valid /)
    assert.equal((await place.try('event-type delete a.b', 'n')).ended, 0, 'archiving can be undone')
  })

  test('goes on after a yes, with --yes, and without a terminal', async () => {
    const { ended, err } = await place.try('region delete acme eu', 'y')
    assert.equal(ended, 0, err)
    assert.equal((await place.try('schedule delete acme daily --yes', 'n')).ended, 0)
    assert.match(await place.sluice('endpoint delete acme main'), /^Deleted endpoint main/)
  })

  const hasScript = spawnSync('script', ['--version']).status === 0
  test('asks at a real terminal', { skip: hasScript ? false : 'needs util-linux' }, async () => {
    await place.sluice('app create Two --uid two')
    for (const [answer, ended] of [
      ['n\r', 1],
      ['\x04', 1],
      ['y\r', 0],
    ] as const) {
      const command = `'${process.execPath}' '${main}' app delete two`
      const child = spawn('script', ['-qec', command, '/dev/null'], { env: { ...process.env, ...place.env } })
      let seen = ''
      let isAnswered = false
      child.stdout.on('data', (chunk) => {
        seen += chunk
        if (isAnswered || !seen.includes('[y/N]')) return
        isAnswered = true
        child.stdin.write(answer)
      })
      const [code] = await once(child, 'close')
      child.stdin.destroy()
      assert.equal(code, ended, seen)
      assert.match(seen, /Delete application two \(Two\) with 0 endpoints/)
    }
    await place.sluice('app get two', 4)
  })
})
