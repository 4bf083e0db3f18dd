import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { describe, type TestContext, test } from 'node:test'
import { openPlace, type Place } from '../e2e/place.ts'
import { Receiver } from '../e2e/receiver.ts'
import { connect, embed } from '../library/embedded.ts'
import { testEncryptionKey } from '../store/test-vault.ts'
import { type Run, runHere, workplace } from './program.ts'

const hour = 3_600_000

/** Messages that wait in a store without a worker. */
async function waiting(t: TestContext, place: Place, count: number, url: string, fields = {}): Promise<void> {
  const sluice = await embed(t, place, { deliver: false })
  await sluice.request('POST', '/app?get_if_exists=true', { name: 'A', uid: 'a' })
  await sluice.request('POST', '/app/a/endpoint', { url, ...fields })
  for (let i = 0; i < count; i++) await sluice.publish('a', { eventType: 'x.y', payload: { i } })
  await sluice.close()
}

/** The settings of a program on the store, which may deliver to this machine. */
function settings(place: Place): Record<string, string> {
  return {
    SLUICE_STORE: place.store,
    SLUICE_ENCRYPTION_KEY: testEncryptionKey,
    SLUICE_ALLOW_NETWORKS: '127.0.0.0/8',
    SLUICE_LOG_LEVEL: 'warn',
  }
}

/** Runs the program on the store in a process of its own. */
function runner(place: Place): (args: string) => Run {
  const { run } = workplace()
  return (args) => run(args, settings(place))
}

/** Runs the program on the store within this process, to its end; throws unless that is a good one. */
async function drained(place: Place, args: string, code = 0): Promise<string> {
  const { ended, out, err } = await runHere(args.split(' '), { directory: tmpdir() }, settings(place))
  assert.equal(ended, code, `${err}${out}`)
  return out
}

/** The summary of a run that ended with nothing left, and of any other. */
const summary = (fields: object) => ({
  ...{ ended: 'idle', delivered: 0, waiting: 0, dead: 0, givenUp: 0, left: 0 },
  ...fields,
})

for (const dialect of ['sqlite', 'postgres'] as const) {
  describe(`drain on ${dialect}`, () => {
    test('delivers what is due, at the pace the endpoint can take, and ends', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      await waiting(t, place, 6, `${receiver.url}/slow`, { throttleRate: 10, burst: 1 })
      const out = await drained(place, 'drain --for 10m --json')
      assert.deepEqual(JSON.parse(out), summary({ delivered: 6 }))
      assert.equal(receiver.arrivals.length, 6)
      assert.deepEqual(await place.query('select * from pending'), [])
    })

    test('runs the schedules that are due, and delivers what they publish', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      const sluice = await embed(t, place, { deliver: false })
      await sluice.applications.create({ name: 'A', uid: 'a' })
      await sluice.endpoints.create('a', { url: `${receiver.url}/hook` })
      for (const uid of ['one', 'two']) {
        await sluice.schedules.create('a', { uid, cron: '0 * * * *', eventType: 'x.y', payload: { uid } })
      }
      await sluice.close()
      // They were due three hours ago, twice over, and no worker ran.
      await place.query(`update schedule set reached_at = reached_at - ${3 * hour}, due_at = 1 returning key`)
      const out = await drained(place, 'drain --for 10m --json')
      assert.deepEqual(JSON.parse(out), summary({ delivered: 2 }))
      assert.deepEqual(receiver.arrivals.map(({ body }) => body.toString()).sort(), ['{"uid":"one"}', '{"uid":"two"}'])
      await drained(place, 'drain --for 10m --quiet')
      assert.equal(receiver.arrivals.length, 2)
    })

    test('does not wait for a retry that is due later, and says how it went', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      receiver.behave('/bad', () => ({ status: 500 }))
      receiver.behave('/gone', () => ({ status: 410 }))
      await waiting(t, place, 1, `${receiver.url}/bad`, { retry: { waits: { kind: 'list', ms: [hour] } } })
      await waiting(t, place, 1, `${receiver.url}/gone`, { eventTypes: ['x.y'] })
      const out = await drained(place, 'drain --for 10m')
      assert.equal(out, 'Drained: 0 delivered, 2 to retry, 1 dead; nothing more is due.\n')
    })

    test('ends within its time although a receiver hangs, with every attempt recorded and none used up', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      receiver.behave('/held', () => new Promise(() => {}))
      const once = { retry: { waits: { kind: 'list', ms: [] } }, circuit: { failures: 1 }, concurrency: 2 }
      await waiting(t, place, 5, `${receiver.url}/held`, { ...once, timeoutMs: 300_000 })
      const begunAt = performance.now()
      // A shutdown waits ten minutes for attempts under way; a drain waits no longer than its own time. Of these 20 s, the
      // first third is for the start of the attempts.
      const out = await drained(place, 'drain --for 20s --json --shutdown-limit 10m', 8)
      assert.ok(performance.now() - begunAt < 5 * 60_000, 'the drain waited like a shutdown')
      assert.equal(receiver.arrivals.length, 2)
      assert.deepEqual(JSON.parse(out), summary({ ended: 'time', waiting: 2, givenUp: 2, left: 3 }))
      const recorded = 'select code, n, next_at is not null as waits from attempt'
      const [first, second, ...others] = await place.query(recorded)
      assert.deepEqual([Object.values(first ?? {}), others.length], [['aborted', 1, first?.waits], 0])
      assert.deepEqual(second, first)
      assert.ok(first?.waits)
      assert.deepEqual(
        await place.query('select endpoint from lane where owner is not null'),
        [],
        'lanes are handed back',
      )
      // Each endpoint allows one attempt, and the circuit opens at the first failure.
      receiver.behave('/held', () => ({ status: 200 }))
      assert.match(await drained(place, 'drain'), /^Drained: 5 delivered, 0 to retry, 0 dead; nothing more is due/)
    })

    test('does not say that nothing is due when its time ends before the next retry', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      receiver.behave('/bad', () => ({ status: 500 }))
      await waiting(t, place, 1, `${receiver.url}/bad`, {
        retry: { waits: { kind: 'list', ms: [60_000] }, jitter: 'none' },
      })
      const out = await drained(place, 'drain --for 12s --linger 10m --json')
      assert.deepEqual(JSON.parse(out), summary({ ended: 'time', waiting: 1 }))
    })

    test('does the long work that was asked for, and delivers what comes of it', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      receiver.behave('/', () => ({ status: 500 }))
      await waiting(t, place, 2, `${receiver.url}/`, { retry: { waits: { kind: 'list', ms: [] } } })
      assert.equal(JSON.parse(await drained(place, 'drain --json')).dead, 2)
      const sluice = await embed(t, place, { deliver: false })
      // At a pace it rests in between, and is not done before it has.
      await sluice.request('POST', '/app/a/dead/replay', { perSecond: 1 })
      await sluice.close()
      receiver.behave('/', () => ({ status: 200 }))
      assert.deepEqual(JSON.parse(await drained(place, 'drain --json')), summary({ delivered: 2 }))
    })

    test('finds what was published in a transaction whose program never said that it committed', async (t) => {
      const place = await openPlace(t, dialect)
      const receiver = await Receiver.listen(t)
      await waiting(t, place, 0, `${receiver.url}/`)
      const sluice = await embed(t, place, { deliver: false })
      const own = await connect(t, place)
      await own.run('begin')
      await own.publishWith(sluice, 'a', { eventType: 'x.y', payload: {} })
      await own.run('commit')
      assert.equal(JSON.parse(await drained(place, 'drain --json')).delivered, 1)
    })

    test('with nothing to do ends at once', async (t) => {
      const place = await openPlace(t, dialect)
      assert.match(await drained(place, 'drain'), /^Drained: 0 delivered, .* nothing more is due\.\n$/)
      const quiet = runner(place)('drain --quiet --log-level info')
      assert.equal(await quiet.ended, 0)
      assert.equal(`${quiet.out}${quiet.err}`, '', 'cron has nothing to mail')
    })
  })
}

test('a second drain of a SQLite file, or one beside a server, says who has it and ends with 0', async (t) => {
  const place = await openPlace(t, 'sqlite')
  const receiver = await Receiver.listen(t)
  let answer = () => {}
  receiver.behave('/held', () => new Promise((resolve) => (answer = () => resolve({ status: 200 }))))
  await waiting(t, place, 1, `${receiver.url}/held`)
  const run = runner(place)
  const first = run('drain --for 10m')
  await receiver.until('an attempt', () => receiver.arrivals.length === 1)
  const second = run('drain')
  assert.equal(await second.ended, 0, second.err)
  assert.match(second.out, new RegExp(`^Nothing to do: .* is owned by sluice drain \\(pid ${first.child.pid} on `))
  answer()
  assert.equal(await first.ended, 0, first.err)
  assert.match(first.out, /^Drained: 1 delivered/)

  const server = run('serve --listen 127.0.0.1:0')
  await server.says(/Listening on/)
  const third = run('drain')
  assert.equal(await third.ended, 0, third.err)
  assert.match(third.out, /is owned by sluice serve/)
  const forPrograms = run('drain --json')
  assert.equal(await forPrograms.ended, 0)
  assert.equal(JSON.parse(forPrograms.out).ended, 'owned')
  const quiet = run('drain --quiet')
  assert.equal(await quiet.ended, 0)
  assert.equal(`${quiet.out}${quiet.err}`, '')
})

test('two drains at once on Postgres share the work', async (t) => {
  const place = await openPlace(t, 'postgres')
  const receiver = await Receiver.listen(t)
  for (const path of ['/a', '/b', '/c', '/d']) await waiting(t, place, 0, `${receiver.url}${path}`)
  await waiting(t, place, 25, `${receiver.url}/e`)
  const run = runner(place)
  const both = [run('drain --for 10m'), run('drain --for 10m')]
  for (const program of both) assert.equal(await program.ended, 0, program.err)
  const sent = receiver.arrivals.map(({ path, headers }) => `${path} ${headers['webhook-id']}`)
  assert.equal(sent.length, 125, both.map(({ out, err }) => out + err).join(''))
  assert.equal(new Set(sent).size, 125)
})

test('ends within its time although the store does not answer any more, with an error', async (t) => {
  const place = await openPlace(t, 'postgres')
  const receiver = await Receiver.listen(t)
  const own = await connect(t, place)
  const lock = async (): Promise<void> => {
    await own.run('begin')
    try {
      await own.run('lock table attempt, lane, pending in access exclusive mode')
    } catch (error) {
      // The program may hold one of them and wait for another; the database then ends this transaction.
      if ((error as { code?: string }).code !== '40P01') throw error
      await own.run('rollback')
      await lock()
    }
  }
  receiver.behave('/', async () => {
    await lock()
    return { status: 200 }
  })
  await waiting(t, place, 1, `${receiver.url}/`)
  // Of these 20 s, the first 13 are for the start of an attempt.
  const program = runner(place)('drain --for 20s --json')
  const ended = await program.ended
  const said = `${program.err}${program.out}`
  assert.equal(receiver.arrivals.length, 1, `no attempt began in time, so the store was not locked: ${said}`)
  assert.equal(ended, 1, said)
  assert.match(program.err, /time limit reached before the store answered/)
  assert.equal(program.out, '', 'no end is reported that is not known')
  await own.run('rollback')
})
