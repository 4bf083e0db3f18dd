import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { doctorLimits } from '../../src/features/doctor/facts.ts'
import { eventually } from '../e2e/eventually.ts'
import { damage } from '../store/damage.ts'
import { after, dialects, never, only, scene, soon } from './doctor-scene.ts'

const once = { waits: { kind: 'list', ms: [] }, jitter: 'none' }
const slowly = { waits: { kind: 'list', ms: [3_600_000] }, jitter: 'none' }
const longMs = 600_000

for (const dialect of dialects) {
  describe(`the doctor on ${dialect}`, () => {
    test('finds nothing on a healthy system, idle and busy', async (t) => {
      const s = await scene(t, dialect)
      await s.work()
      await s.finds([], doctorLimits)
      for (const uid of ['one', 'two', 'three']) await s.endpoint(uid, { throttleRate: uid === 'one' ? 50 : null })
      s.receiver.behave('/two', after(50))
      const found: string[] = []
      let stopped = false
      const load = (async () => {
        for (let i = 0; i < 40 && !stopped; i++) await s.publish(10)
      })()
      try {
        for (let looks = 0; looks < 5; looks++) {
          const now = await s.findings({ ...doctorLimits, slowCommitMs: soon.slowCommitMs, clockMs: soon.clockMs })
          found.push(...now.map(({ code }) => code))
        }
      } finally {
        stopped = true
        await load
      }
      assert.deepEqual(found, [])
    })

    test('finds a paused endpoint with waiting deliveries, and the command that resumes it', async (t) => {
      const s = await scene(t, dialect)
      await s.work()
      await s.endpoint('main')
      await s.ask('POST', '/app/acme/endpoint/main/pause')
      await s.finds([])
      await s.publish(3)
      const { command, evidence, severity, app, endpoint } = only(await s.finds(['endpoint_paused']))
      assert.deepEqual([command, evidence.waiting, severity], ['sluice endpoint resume acme main', 3, 'warning'])
      assert.deepEqual([app, endpoint], ['acme', 'main'])
      await s.ask('POST', '/app/acme/endpoint/main/resume')
      await s.finds([])
    })

    test('finds a disabled endpoint with waiting deliveries', async (t) => {
      const s = await scene(t, dialect)
      await s.work()
      await s.endpoint('main', { disabled: true, whileDisabled: 'hold' })
      await s.publish(2)
      assert.equal(only(await s.finds(['endpoint_disabled'])).command, 'sluice endpoint update acme main --enable')
    })

    test('finds a circuit that an operator opened', async (t) => {
      const s = await scene(t, dialect)
      await s.work()
      await s.endpoint('main')
      await s.ask('POST', '/app/acme/endpoint/main/circuit/open', {})
      await s.publish(2)
      assert.equal(only(await s.finds(['circuit_opened_by_hand'])).command, 'sluice circuit close acme main')
    })

    test('finds an open circuit, with the last error, since when, and the next probe', async (t) => {
      const s = await scene(t, dialect, { circuitFailures: 3, circuitOpen: '10m' })
      s.receiver.behave('/main', () => ({ status: 500 }))
      await s.work()
      await s.endpoint('main', { retry: slowly })
      await s.publish(5)
      await eventually('the attempts are recorded', async () => (await s.store.counts()).attempts >= 3)
      const { sentence, evidence, command } = only(await s.finds(['circuit_open']))
      assert.match(
        sentence,
        /^The circuit of main of acme is open; 5 deliveries wait\. .* Next probe at .* Last error: refused/,
      )
      assert.match(String(evidence.lastError), /500/)
      assert.ok(Date.parse(String(evidence.nextProbeAt)) > Date.now())
      assert.ok(Date.parse(String(evidence.failingSince)) <= Date.now() + 1000)
      assert.equal(command, 'sluice circuit close acme main')
    })

    test('finds a receiver that asks to wait', async (t) => {
      const s = await scene(t, dialect)
      s.receiver.behave('/main', () => ({ status: 429, headers: { 'retry-after': '600' } }))
      await s.work()
      await s.endpoint('main', { concurrency: 1 })
      await s.publish(4)
      assert.equal(only(await s.finds(['receiver_holds'])).command, 'sluice why acme --endpoint main')
    })

    test('finds an ordered lane whose first delivery is blocked, or waits', async (t) => {
      const s = await scene(t, dialect)
      s.receiver.behave('/blocked', () => ({ status: 500 }))
      await s.work()
      await s.endpoint('blocked', { order: 'fifo', deadHead: 'block', retry: once })
      await s.publish(3)
      assert.equal(only(await s.finds(['head_blocked'])).command, 'sluice lane retry-head acme blocked')
      await s.ask('DELETE', '/app/acme/endpoint/blocked')
      s.receiver.behave('/waits', () => ({ status: 500 }))
      await s.endpoint('waits', { order: 'fifo', retry: slowly })
      await s.publish(3)
      assert.equal(only(await s.finds(['order_waits'])).command, 'sluice lane retry-head acme waits')
    })

    test('finds timeouts that hold the slots of an endpoint', async (t) => {
      const s = await scene(t, dialect, { circuitFailures: 0 })
      s.receiver.behave('/main', () => never)
      await s.work()
      await s.endpoint('main', { timeoutMs: 300, concurrency: 2, retry: slowly })
      await s.publish(60)
      const { evidence, command, sentence } = only(await s.finds(['timeouts_hold_slots']))
      assert.deepEqual([evidence.timeoutMs, evidence.concurrency, evidence.timeoutShare], [300, 2, 1])
      assert.equal(command, 'sluice circuit open acme main')
      assert.match(sentence, /Its 2 slots make at most 6\.67\/s that way\./)
    })

    test('finds a rate limit below the rate of arrival, with the rate that is needed', async (t) => {
      const s = await scene(t, dialect)
      await s.work()
      await s.endpoint('main', { throttleRate: 1, burst: 1 })
      await s.publish(200)
      const { evidence, command } = only(await s.finds(['rate_limit_low']))
      assert.equal(evidence.setRate, 1)
      assert.ok(Number(evidence.neededRate) > Number(evidence.arrivalRate) && Number(evidence.arrivalRate) > 1)
      assert.match(command, /^sluice endpoint update acme main --rate \d+$/)
      const rate = Number(command.split(' ').at(-1))
      await s.ask('PATCH', '/app/acme/endpoint/main', { throttleRate: rate, burst: 200 })
      await s.finds([])
    })

    test('finds the rate of an application that is too low', async (t) => {
      const s = await scene(t, dialect)
      await s.ask('PATCH', '/app/acme', { throttleRate: 1 })
      await s.work()
      await s.endpoint('main')
      await s.publish(100)
      assert.match(only(await s.finds(['application_rate_low'])).command, /^sluice app update acme --rate \d+$/)
    })

    test('finds the limit of failed attempts', async (t) => {
      const s = await scene(t, dialect, { circuitFailures: 0, failuresPerMinute: 2 })
      s.receiver.behave('/main', () => ({ status: 500 }))
      await s.work()
      await s.endpoint('main', { concurrency: 1, retry: slowly })
      await s.publish(10)
      assert.match(String(only(await s.finds(['failures_limited'])).evidence.lastError), /500/)
    })

    test('finds a rate that climbs back after a circuit was closed', async (t) => {
      const s = await scene(t, dialect)
      await s.work()
      await s.endpoint('main', { concurrency: 1 })
      await s.ask('POST', '/app/acme/endpoint/main/circuit/open', {})
      await s.publish(40)
      await s.finds(['circuit_opened_by_hand'])
      await s.ask('POST', '/app/acme/endpoint/main/circuit/close', {})
      assert.equal(only(await s.finds(['rate_reduced'])).command, 'sluice circuit reset acme main')
    })

    test("finds a concurrency below what Little's law asks for", async (t) => {
      const s = await scene(t, dialect)
      s.receiver.behave('/main', after(300))
      await s.work()
      await s.endpoint('main', { concurrency: 1 })
      await s.publish(100)
      const { evidence, command } = only(await s.finds(['concurrency_low']))
      assert.equal(evidence.concurrency, 1)
      assert.ok(Number(evidence.meanAttemptMs) >= 300)
      const needed = Math.ceil((Number(evidence.arrivalRate) * Number(evidence.meanAttemptMs)) / 1000)
      assert.ok(Number(evidence.neededConcurrency) >= needed)
      assert.equal(command, `sluice endpoint update acme main --concurrency ${evidence.neededConcurrency}`)
    })

    test('finds that all slots of the workers are in use, with the number that is needed', async (t) => {
      const s = await scene(t, dialect, { inFlight: 2 })
      for (const uid of ['one', 'two']) s.receiver.behave(`/${uid}`, after(300))
      await s.work()
      for (const uid of ['one', 'two']) await s.endpoint(uid)
      await s.publish(60)
      const { evidence, command } = only(await s.finds(['in_flight_saturated']))
      assert.deepEqual([evidence.inFlight, evidence.limit], [2, 2])
      assert.ok(Number(evidence.neededSlots) > 2)
      assert.equal(command, `SLUICE_IN_FLIGHT=${evidence.neededSlots} sluice serve`)
    })

    test('finds an application that uses all its slots', async (t) => {
      const s = await scene(t, dialect)
      await s.ask('PATCH', '/app/acme', { maxInFlight: 1 })
      s.receiver.behave('/main', after(300))
      await s.work()
      await s.endpoint('main')
      await s.publish(60)
      assert.equal(only(await s.finds(['application_slots_low'])).command, 'sluice app get acme')
    })

    test('finds that no worker is alive: critical once deliveries wait', async (t) => {
      const s = await scene(t, dialect)
      assert.equal(only(await s.finds(['no_worker'])).severity, 'warning')
      await s.endpoint('main')
      await s.publish(2)
      const { severity, evidence } = only(await s.finds(['no_worker']))
      assert.deepEqual([severity, evidence.waiting], ['critical', 2])
      await s.work()
      await s.finds([])
    })

    test('finds that no worker serves a region, once for all its endpoints', async (t) => {
      const s = await scene(t, dialect, { region: 'us,default' })
      await s.work()
      await s.endpoint('one', { region: 'eu' })
      await s.endpoint('two', { region: 'eu' })
      await s.publish(2)
      const { severity, evidence, command } = only(await s.finds(['region_without_worker']))
      assert.deepEqual([severity, evidence.region, evidence.waiting, evidence.endpoints], ['critical', 'eu', 4, 2])
      assert.equal(command, dialect === 'sqlite' ? 'sluice serve' : 'sluice worker --region eu')
      const why = await s.ask('GET', '/app/acme/endpoint/one/why')
      assert.equal((why as { reason: string }).reason, 'no_worker_in_region')
      await s.ask('PATCH', '/app/acme/endpoint/one', { region: 'us' })
      await s.ask('PATCH', '/app/acme/endpoint/two', { region: null })
      await s.finds([])
    })

    test('finds a lane that no worker owns, though one is alive', async (t) => {
      const s = await scene(t, dialect)
      await s.store.join({ leaseMs: longMs, description: 'stands still' })
      await s.endpoint('main')
      await s.publish(2)
      const { severity, evidence } = only(await s.finds(['lane_unowned']))
      assert.deepEqual([severity, evidence.workers], ['critical', 1])
    })

    test('finds a worker that died', async (t) => {
      const s = await scene(t, dialect)
      await s.store.join({ leaseMs: 50, description: 'short-lived' })
      await s.work()
      const { evidence, sentence } = only(await s.finds(['worker_died']))
      assert.equal(evidence.died, 1)
      assert.match(sentence, /short-lived/)
      await s.finds([], { ...soon, diedMs: 0 })
    })

    test('finds that no process leads', async (t) => {
      const s = await scene(t, dialect)
      await s.store.join({ leaseMs: longMs, description: 'does not lead' })
      await s.finds([])
      assert.equal(only(await s.finds(['leader_missing'], { ...soon, leaderlessMs: 0 })).evidence.workers, 1)
      await s.store.lead({ id: 'a', description: 'leads' }, longMs)
      await s.finds([], { ...soon, leaderlessMs: 0 })
    })

    test('finds processes of different versions', async (t) => {
      const s = await scene(t, dialect)
      const worker = await s.store.join({ leaseMs: longMs, description: 'old' })
      await s.store.renew(worker, longMs, { version: '0.0.1', host: 'h', pid: 1, inFlight: 0 })
      await s.work()
      assert.match(String(only(await s.finds(['versions_differ'])).evidence.versions), /0\.0\.1/)
    })

    test('finds an endpoint whose secret does not open', async (t) => {
      const s = await scene(t, dialect)
      await s.store.join({ leaseMs: longMs, description: 'a worker' })
      await s.endpoint('main')
      await s.publish(1)
      await s.finds([], doctorLimits)
      await damage(s.place, dialect, { table: 'endpoint', column: 'secrets', where: "uid = 'main'", position: 60 })
      assert.equal(only(await s.finds(['encryption_key_missing'])).severity, 'critical')
    })

    test('finds dead letters that grow, and their endpoint', async (t) => {
      const s = await scene(t, dialect, { circuitFailures: 0 })
      s.receiver.behave('/main', () => ({ status: 400 }))
      await s.work()
      await s.endpoint('main', { retry: once })
      await s.publish(12)
      // The finding comes before the last of them.
      await eventually(
        'all are dead letters',
        async () => Number((await s.place.query('select count(*) as n from dead'))[0]?.n) === 12,
      )
      const { evidence, command } = only(await s.finds(['dead_letters_growing']))
      assert.deepEqual([evidence.recent, evidence.before, evidence.worstShare], [12, 0, 1])
      assert.equal(command, 'sluice dead list acme --endpoint main')
    })

    test('finds a schedule that is late', async (t) => {
      const s = await scene(t, dialect)
      await s.store.join({ leaseMs: longMs, description: 'a worker' })
      await s.store.lead({ id: 'a', description: 'runs no schedules' }, longMs)
      const schedule = { uid: 'hourly', cron: '0 * * * *', eventType: 'x.y', payload: {} }
      await s.ask('POST', '/app/acme/schedule', schedule)
      await s.finds([])
      await s.place.query('update schedule set due_at = due_at - 7200000, next_at = next_at - 7200000')
      const { evidence, command } = only(await s.finds(['schedule_late']))
      assert.ok(Number(evidence.lateMs) > 3_600_000)
      assert.equal(command, 'sluice schedule show acme hourly')
    })

    test('finds a source that refuses everything', async (t) => {
      const s = await scene(t, dialect)
      await s.store.join({ leaseMs: longMs, description: 'a worker' })
      await s.store.lead({ id: 'a', description: 'leads' }, longMs)
      await s.ask('POST', '/app/acme/source', { provider: 'github', uid: 'repo' })
      const app = (await s.store.findApplication('acme')) ?? assert.fail('there is no application')
      const source = (await s.store.findSource(app.key, 'repo')) ?? assert.fail('there is no source')
      const refused = { source: source.key, accepted: 0, refused: 4, refusedInRow: 4, refusedCode: 'wrong_signature' }
      await s.store.noteArrivals([refused], [], 0)
      await s.finds([])
      await s.store.noteArrivals([{ ...refused, refused: 1, refusedInRow: 1 }], [], 0)
      const { evidence, command, sentence } = only(await s.finds(['source_refuses']))
      assert.deepEqual(evidence, { refusedInRow: 5, refusedCode: 'wrong_signature', everAccepted: false })
      assert.equal(command, 'sluice source samples repo --app acme')
      assert.match(sentence, /5 arrivals in a row/)
      await s.store.noteArrivals([{ ...refused, accepted: 1, refused: 0, refusedInRow: 0 }], [], 0)
      await s.finds([])
    })

    test('finds names that clients resolve in a URL, with the command that renames each', async (t) => {
      const s = await scene(t, dialect)
      await s.store.join({ leaseMs: longMs, description: 'a worker' })
      await s.store.lead({ id: 'a', description: 'leads' }, longMs)
      await s.endpoint('plain')
      const app = (await s.store.findApplication('acme')) ?? assert.fail('there is no application')
      const endpoint = (await s.store.findEndpoint(app.key, 'plain')) ?? assert.fail('there is no endpoint')
      // As an earlier version took it: the API refuses this name.
      await s.store.updateEndpoint(app.key, endpoint.key, { uid: '..' })
      const { command, evidence, sentence } = only(await s.finds(['folded_name']))
      assert.deepEqual(evidence, { noun: 'endpoint', id: endpoint.id, name: '..' })
      assert.equal(command, `sluice endpoint update ${app.id} ${endpoint.id} --uid UID`)
      assert.match(sentence, /another thing/)
      await s.ask('PATCH', `/app/${app.id}/endpoint/${endpoint.id}`, { uid: 'renamed' })
      await s.finds([])
    })

    test('finds queues that fill, and publishes that are refused', async (t) => {
      const s = await scene(t, dialect, { maxWaitingPerEndpoint: 5 })
      await s.store.join({ leaseMs: longMs, description: 'a worker' })
      await s.endpoint('main')
      const calm = { ...doctorLimits, slowCommitMs: soon.slowCommitMs }
      await s.publish(4)
      assert.deepEqual(only(await s.finds(['queue_filling'], calm)).evidence, { waiting: 4, limit: 5 })
      await s.publish(1)
      await assert.rejects(s.publish(1), { code: 'overloaded' })
      assert.equal(only(await s.finds(['publishes_refused'], calm)).severity, 'critical')
      // The queue is gone, and its publisher was refused a moment ago.
      await s.ask('DELETE', '/app/acme/endpoint/main')
      const { evidence } = only(await s.finds(['publishes_refused'], calm))
      assert.ok(Number(evidence.refusedPerSecond) > 0)
    })

    test('finds one destination or many behind a backlog that has no other cause', async (t) => {
      const s = await scene(t, dialect)
      const stuck = await s.store.join({ leaseMs: longMs, description: 'owns lanes and sends nothing' })
      const claim = async (lanes: number) => {
        let claimed = 0
        await eventually('the lanes are claimed', async () => {
          claimed += (await s.store.claim(stuck, 10)).lanes.length
          return claimed >= lanes
        })
      }
      await s.endpoint('one')
      await s.publish(6)
      await claim(1)
      // Another process can ask the owner on Postgres, and learns that it does not answer.
      const code = dialect === 'sqlite' ? 'backlog_one_destination' : 'worker_stuck'
      const found = only(await s.finds([code]))
      assert.deepEqual([found.endpoint, found.evidence.waiting], ['one', 6])
      if (dialect === 'postgres') return
      await s.endpoint('two')
      await s.endpoint('three')
      await s.publish(6)
      await claim(2)
      const { evidence, command } = only(await s.finds(['backlog_many_destinations']))
      assert.deepEqual([evidence.endpoints, evidence.waiting, evidence.share], [3, 24, 0.5])
      assert.equal(command, 'sluice why --sort age')
    })
  })
}
