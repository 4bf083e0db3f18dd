import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { storeTraits } from '../../src/domain/store-traits.ts'
import { diagnose, rules, trendOf } from '../../src/features/doctor/diagnosis.ts'
import { type DoctorFacts, type EndpointFacts, networkFileSystem, noAttempts } from '../../src/features/doctor/facts.ts'

const now = 1_800_000_000_000
const disk = { path: '/data/sluice.db', freeBytes: 2 ** 40, totalBytes: 2 ** 41, network: null }

const healthy: DoctorFacts = {
  now,
  traits: storeTraits.sqlite,
  store: { now, commitMs: 3, bytes: 1e6, logBytes: 1e6, disk, server: null },
  process: { version: '1.0.0', clockAheadMs: 0 },
  workers: [
    {
      id: 1,
      name: 'pid 1 on a',
      version: '1.0.0',
      state: 'alive',
      joinedAgoMs: 60_000,
      endedAgoMs: null,
      lanes: 2,
      slots: { inFlight: 3, limit: 1024 },
      clockAheadMs: 0,
    },
  ],
  hasLeader: true,
  waiting: { total: 0, endpoints: 0, isExact: true, limit: 1000, limitPerApp: 500 },
  shedPerSecond: 0,
  endpoints: [],
  dead: { windowMs: 600_000, recent: 0, before: 0, worst: null },
  lateSchedules: [],
  refusingSources: [],
  certificates: [],
  foldedNames: [],
}

function endpoint(uid: string, fields: Partial<EndpointFacts>): EndpointFacts {
  return {
    app: 'acme',
    endpoint: uid,
    region: 'default',
    reason: 'delivering',
    detail: 'It delivers.',
    nextAt: null,
    waiting: 10,
    isExact: true,
    waitingLimit: 1_000_000,
    oldestDueMs: 0,
    arrivalRate: null,
    pace: null,
    inFlight: 0,
    concurrency: 16,
    rate: null,
    crowded: null,
    circuit: 'closed',
    nextProbeAt: null,
    failingSince: null,
    isSealedShut: false,
    timeoutMs: 15_000,
    recent: noAttempts,
    ...fields,
  }
}

const codesOf = (facts: DoctorFacts) => diagnose(facts).findings.map(({ code }) => code)

describe('the doctor', () => {
  test('finds nothing in healthy facts', () => {
    assert.deepEqual(diagnose(healthy), {
      status: 'healthy',
      summary: 'Healthy. No deliveries wait.',
      findings: [],
      more: 0,
    })
    const moving = { ...healthy, endpoints: [endpoint('a', { oldestDueMs: 59_000 }), endpoint('b', { waiting: 30 })] }
    const { status, summary } = diagnose({ ...moving, waiting: { ...healthy.waiting, total: 40, endpoints: 2 } })
    assert.equal(status, 'healthy')
    assert.equal(summary, 'Healthy. 40 deliveries wait for 2 endpoints, 75 % of them for b of acme.')
  })

  test('finds a SQLite file on a network file system, by the type that Linux reports', () => {
    assert.deepEqual([0x6969, 0xff534d42, 0xff534d42 | 0, 0xef53, 0x01021994].map(networkFileSystem), [
      'NFS',
      'CIFS',
      'CIFS',
      null,
      null,
    ])
    const facts = { ...healthy, store: { ...healthy.store, disk: { ...disk, network: 'NFS' } } }
    assert.deepEqual(codesOf(facts), ['network_file_system'])
  })

  test('finds client certificates that expire soon, and is critical about those that have expired', () => {
    const day = 86_400_000
    const certificates = [
      { app: 'acme', endpoint: 'a', expiresAt: now - day },
      { app: 'acme', endpoint: 'b', expiresAt: now + day },
    ]
    const { findings } = diagnose({ ...healthy, certificates })
    assert.deepEqual(
      findings.map(({ code, severity, endpoint: which }) => [code, severity, which]),
      [
        ['client_certificate_expires', 'critical', 'a'],
        ['client_certificate_expires', 'warning', 'b'],
      ],
    )
  })

  test('tells a token endpoint and a refused client certificate from a receiver that holds or fails', () => {
    const failing = (lastError: string) => ({ ...noAttempts, count: 3, lastError })
    const endpoints = [
      endpoint('a', { reason: 'held', recent: failing('token_failed: No token from the token endpoint x.') }),
      endpoint('b', { circuit: 'open', recent: failing('client_certificate: The receiver refused it.') }),
      endpoint('c', { reason: 'held', oldestDueMs: 61_000, recent: failing('refused (status 429).') }),
    ]
    assert.deepEqual(codesOf({ ...healthy, endpoints }).toSorted(), [
      'client_certificate_refused',
      'receiver_holds',
      'token_endpoint_fails',
    ])
  })

  test('names one cause per endpoint, and the critical findings first', () => {
    const paused = endpoint('a', { reason: 'paused', oldestDueMs: 1e6, circuit: 'open' })
    const shut = endpoint('b', { isSealedShut: true, reason: 'paused' })
    const { findings, status, summary } = diagnose({ ...healthy, endpoints: [paused, shut] })
    assert.deepEqual(
      findings.map(({ code, endpoint: which }) => [code, which]),
      [
        ['encryption_key_missing', 'b'],
        ['endpoint_paused', 'a'],
      ],
    )
    assert.deepEqual([status, summary.slice(0, 23)], ['critical', '2 findings, 1 critical.'])
  })

  test('names five findings of a kind, and counts the others', () => {
    const endpoints = Array.from({ length: 12 }, (_, i) => endpoint(`e${i}`, { reason: 'paused' }))
    const { findings, more, summary } = diagnose({ ...healthy, endpoints })
    assert.deepEqual([findings.length, more, summary.slice(0, 12)], [5, 7, '12 findings.'])
  })

  test('asks for more slots only where timeouts do not use them', () => {
    const busy = { ...healthy.workers[0], slots: { inFlight: 10, limit: 10 } } as DoctorFacts['workers'][number]
    const crowded = {
      reason: 'crowded',
      crowded: 'process',
      oldestDueMs: 90_000,
      arrivalRate: 20,
      inFlight: 10,
    } as const
    const answering = { ...noAttempts, count: 50, delivered: 50, meanMs: 1000, slowestDeliveredMs: 1500 }
    const slow = diagnose({
      ...healthy,
      workers: [busy],
      endpoints: [endpoint('a', { ...crowded, recent: answering })],
    })
    assert.deepEqual(
      slow.findings.map(({ code }) => code),
      ['in_flight_saturated'],
    )
    // 20/s that take a second each need 20 slots, and a fifth more.
    assert.equal(slow.findings[0]?.evidence.neededSlots, 24)
    const recent = { ...answering, timeouts: 40, timeoutShare: 0.95 }
    const timing = diagnose({ ...healthy, workers: [busy], endpoints: [endpoint('a', { ...crowded, recent })] })
    assert.deepEqual(
      timing.findings.map(({ code }) => code),
      ['timeouts_hold_slots'],
    )
    assert.equal(timing.findings[0]?.command, 'sluice endpoint update acme a --timeout 5s')
  })

  test('names the rate that is needed in the period of the endpoint', () => {
    const rate = { perPeriod: 10, periodSeconds: 60, from: 'application' } as const
    const limited = endpoint('a', { reason: 'rate_limited', oldestDueMs: 90_000, arrivalRate: 0.5, rate })
    const [finding] = diagnose({ ...healthy, endpoints: [limited] }).findings
    assert.equal(finding?.command, 'sluice endpoint update acme a --rate 36 --period 60s')
    assert.match(finding?.sentence ?? '', /0\.5\/s arrive, and 0\.167\/s, the default of the application, may leave/)
  })

  test('says nothing about a lane that rests until an instant', () => {
    const rests = endpoint('a', { reason: 'waiting_for_worker', oldestDueMs: 40_000, nextAt: now + 60_000 })
    assert.deepEqual(codesOf({ ...healthy, endpoints: [rests] }), [])
    assert.deepEqual(codesOf({ ...healthy, endpoints: [{ ...rests, nextAt: null }] }), ['lane_unowned'])
  })

  test('blames a slow store, not the queues behind it', () => {
    const facts = { ...healthy, endpoints: [endpoint('a', { oldestDueMs: 1e6 })] }
    assert.deepEqual(codesOf(facts), ['backlog_one_destination'])
    assert.deepEqual(codesOf({ ...facts, store: { ...healthy.store, commitMs: 900 } }), ['store_slow'])
  })

  test('finds the limit that is reached: of all, of an application, of an endpoint', () => {
    const endpoints = [endpoint('a', { waiting: 300 }), endpoint('b', { waiting: 200 })]
    assert.deepEqual(codesOf({ ...healthy, endpoints }), ['publishes_refused'])
    assert.equal(diagnose({ ...healthy, endpoints }).findings[0]?.command, 'sluice why acme')
    assert.deepEqual(codesOf({ ...healthy, waiting: { ...healthy.waiting, total: 900 } }), ['queue_filling'])
    assert.deepEqual(codesOf({ ...healthy, endpoints: [endpoint('a', { waitingLimit: 10 })] }), ['publishes_refused'])
    assert.deepEqual(codesOf({ ...healthy, shedPerSecond: 0.1 }), ['publishes_refused'])
  })

  test('finds dead letters when they double, and not when a few come steadily', () => {
    const dead = (recent: number, before: number) => codesOf({ ...healthy, dead: { ...healthy.dead, recent, before } })
    assert.deepEqual([dead(9, 0), dead(120, 100), dead(100, 120)], [[], [], []])
    assert.deepEqual([dead(10, 0), dead(200, 100)], [['dead_letters_growing'], ['dead_letters_growing']])
  })

  test('has plain sentences in its table', () => {
    for (const { code, meaning, remedy } of rules) {
      assert.match(code, /^[a-z_]+$/)
      assert.match(`${meaning}\n${remedy}`, /^[A-Z].*\.\n[A-Z].*\.$/, code)
    }
  })
})

describe('the trend', () => {
  const at = (seconds: number, waiting: number) => ({ at: seconds * 1000, waiting })

  test('says whether depth falls, and when it is empty', () => {
    assert.equal(
      trendOf(at(0, 22_200), at(5, 21_600)).sentence,
      '21,600 deliveries wait: depth falls by 120/s, empty in about 3 min.',
    )
    assert.equal(trendOf(at(0, 100), at(5, 300)).sentence, '300 deliveries wait: depth grows by 40/s.')
    assert.equal(trendOf(at(0, 1), at(5, 1)).sentence, '1 delivery waits: depth stays the same.')
    assert.equal(trendOf(at(0, 9), at(5, 0)).sentence, 'No deliveries wait.')
  })
})
