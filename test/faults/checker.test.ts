import assert from 'node:assert/strict'
import { test } from 'node:test'
import { check, type Rule, returns, rules } from '../../faults/checker.ts'
import type { Arrived, Endpoint, Fault, Histories, Published } from '../../faults/histories.ts'

type Changed = Partial<{ -readonly [K in keyof Histories]: Histories[K] }>

const endpoints: readonly Endpoint[] = [
  { app: 'plain', path: '/plain', concurrency: 2 },
  { app: 'queued', path: '/queued', order: 'fifo' },
  { app: 'keyed', path: '/keyed', order: 'key' },
  { app: 'paced', path: '/paced', rate: 1, burst: 1 },
  { app: 'held', path: '/held', concurrency: 1, holds: true },
]
const perApp = 3

/** A message published at its second and answered 10 ms later. */
function published(n: number, app: string): Published {
  const askedAt = 1000 * n
  const body = `{"n":${n}}`
  const orderingKey = app === 'keyed' ? 'a' : null
  const answer = { outcome: 'accepted', status: 202, id: `msg_${n}`, asked: 1 } as const
  return { n, app, orderingKey, body, askedAt, knownAt: askedAt + 10, ...answer }
}

/** A request answered 200 within 5 ms. */
function arrival(path: string, n: number, at: number, changed: Partial<Arrived> = {}): Arrived {
  const answered = { endedAt: at + 5, end: 'answered', status: 200, retryAfterMs: null } as const
  return { path, id: `msg_${n}`, body: `{"n":${n}}`, notBefore: at - 1, at, ...answered, ...changed }
}

/** Three messages of each application, each delivered once, 100 ms after it was published. */
function sound(): Histories {
  const all = endpoints.flatMap(({ app, path }, i) =>
    Array.from({ length: perApp }, (_, j) => ({ path, message: published(i * perApp + j, app) })),
  )
  return {
    endpoints,
    published: all.map(({ message }) => message),
    arrived: all.map(({ path, message: { n } }) => arrival(path, n, 1000 * n + 100)),
    sent: all.map(({ path, message: { id } }) => ({ path, id, code: 'delivered' })),
    states: all.map(({ path, message: { id } }) => ({ path, id, state: 'success' })),
    faults: [],
  }
}

const fault: Fault = {
  ...{ kind: 'kill', seed: 1, from: 104, until: 400, unrecordedMs: 50, leavesOpen: false, movesHolds: false, did: {} },
}
const first = { plain: 0, queued: 3, keyed: 6, paced: 9, held: 12 }

/** What breaks each rule, and no other. */
const broken: Readonly<Record<Rule, (histories: Histories) => Changed>> = {
  lost: ({ arrived, sent }) => ({
    arrived: arrived.filter(({ id }) => id !== 'msg_1'),
    sent: sent.filter(({ id }) => id !== 'msg_1'),
  }),
  invented: ({ arrived }) => ({ arrived: [...arrived, arrival('/plain', 99, 50_000)] }),
  ended: ({ sent }) => ({ sent: [...sent, { path: '/plain', id: 'msg_1', code: 'delivered' }] }),
  unsent: ({ sent }) => ({ sent: [...sent, { path: '/plain', id: 'msg_98', code: 'delivered' }] }),
  repeated: ({ arrived }) => ({ arrived: [...arrived, arrival('/plain', first.plain, 50_000)] }),
  disordered: ({ arrived }) => ({
    arrived: arrived.map((each) => (each.id === `msg_${first.keyed}` ? arrival('/keyed', first.keyed, 50_000) : each)),
  }),
  flooded: ({ arrived }) => ({
    arrived: arrived.map((each) =>
      each.path === '/paced' ? arrival('/paced', Number(each.id.slice(4)), 20_000) : each,
    ),
  }),
  crowded: ({ arrived }) => ({
    arrived: arrived.map((each) => (each.path === '/plain' ? { ...each, at: 2100, endedAt: 3100 } : each)),
  }),
  hurried: ({ arrived }) => ({
    arrived: [arrival('/held', first.held, 11_500, { status: 429, retryAfterMs: 1000 }), ...arrived],
  }),
  forked: () => ({ faults: [{ ...fault, did: { writesToFormer: 1 } }] }),
  // Nothing is published after it.
  late: () => ({ faults: [{ ...fault, from: 20_000, until: 20_500, gone: 20_000, promoted: 20_100 }] }),
}

test('sound histories break no rule', () => {
  assert.deepEqual(check(sound()), [])
})

for (const [rule, change] of Object.entries(broken)) {
  test(`histories in which it is not so that ${rules[rule as Rule]} are found`, () => {
    const histories = sound()
    const found = new Set(check({ ...histories, ...change(histories) }).map((each) => each.rule))
    assert.deepEqual([...found], [rule])
  })
}

test('the time from a promotion to the next accepted publish is counted, and 5 s of it are fine', () => {
  const histories = { ...sound(), faults: [{ ...fault, gone: 104, promoted: 110 }] }
  assert.deepEqual(returns(histories), [900])
  assert.deepEqual(check(histories), [])
})

test('a message in doubt may arrive or not, and one that was refused may not', () => {
  const histories = sound()
  const withOutcome = (outcome: Published['outcome'], status: number) => ({
    ...histories,
    published: histories.published.map((each) => (each.n === 1 ? { ...each, outcome, status } : each)),
  })
  assert.deepEqual(check(withOutcome('unknown', 0)), [])
  assert.deepEqual(check(withOutcome('refused', 503)), [])
  assert.deepEqual(
    check(withOutcome('refused', 429)).map(({ rule }) => rule),
    ['invented'],
  )
  assert.deepEqual(
    check(withOutcome('unsent', 0)).map(({ rule }) => rule),
    ['invented'],
  )
})

test('a delivery may be repeated if a fault met its attempt, and not if its end was on record by then', () => {
  const { arrived, ...rest } = sound()
  const again = { ...rest, arrived: [...arrived, arrival('/plain', first.plain, 300)] }
  const repeats = (changed: Partial<Fault>) =>
    check({ ...again, faults: [{ ...fault, ...changed }] }).map(({ rule }) => rule)
  assert.deepEqual(repeats({}), [])
  assert.deepEqual(repeats({ from: 150 }), [], 'answered at 105, within 50 ms of it')
  assert.deepEqual(repeats({ from: 160 }), ['repeated'])
  assert.deepEqual(repeats({ from: 50, until: 99 }), ['repeated'], 'it began after the fault')
})

test('a stored message under a second id is found', () => {
  const histories = sound()
  const twin = arrival('/plain', first.plain, 60_000, { id: 'msg_twin' })
  const found = check({ ...histories, arrived: [...histories.arrived, twin] })
  assert.ok(found.some(({ rule, sentence }) => rule === 'invented' && sentence.includes('msg_twin')))
})
