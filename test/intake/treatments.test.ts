import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { defaultFlow, type Flow } from '../../src/domain/flow.ts'
import type { Subscription } from '../../src/domain/match.ts'
import { allAtOnce } from '../../src/domain/turns.ts'
import { Work } from '../../src/intake/preparer.ts'
import { Forms, prepareTreatments, treat } from '../../src/intake/treatments.ts'

const envelope = { eventType: 'x', eventId: null, channels: null, contentType: 'application/json', delayMs: 0 }
const body = Buffer.from('{"id":"u-1","n":1.0}')

interface Wish extends Partial<Flow> {
  readonly secret?: string
  readonly regionSecret?: string | null
}

/** Endpoints 1, 2, 3 … with these wishes; null for one that has none. */
function subscribed(...wishes: (Wish | null)[]): Subscription[] {
  return wishes.map((wish, i) => {
    const plain = { endpoint: i + 1, eventTypes: null, channels: null }
    if (wish === null) return plain
    const { secret = null, regionSecret = null, ...flow } = wish
    const treatment = { id: `ep_${i + 1}`, disabled: false, flow: { ...defaultFlow, ...flow }, secret, regionSecret }
    return { ...plain, treatment }
  })
}

function treated(wishes: (Wish | null)[], bytes: Uint8Array = body) {
  const treatments = prepareTreatments(subscribed(...wishes))
  assert(treatments, 'nobody wants anything')
  const matched = wishes.map((_, i) => i + 1)
  const answer = allAtOnce(treat(treatments, envelope, new Forms(bytes, new Work()), matched))
  return {
    ...answer,
    bodies: answer.variants?.map((each) => (each.body === null ? null : Buffer.from(each.body).toString())),
  }
}

const none = { keep: null, drop: [], rename: {}, pseudonymize: [] }
const withoutId = { ...none, drop: ['/id'] }
const pseudonymous = { ...none, pseudonymize: ['/id'] }

describe('a message', () => {
  test('is stored as it is where no endpoint has a filter or a shape', () => {
    assert.equal(prepareTreatments(subscribed(null, null)), undefined)
    const { endpoints, special, variants } = treated([null, { adaptive: false }, { circuit: 'off' }])
    assert.deepEqual([endpoints, special, variants], [[1, 2, 3], undefined, undefined])
  })

  test('is left out by filters, and given its form for the others', () => {
    const { endpoints, special, bodies } = treated([
      { filter: 'payload.n > 5' },
      { filter: 'payload.n == 1', shape: withoutId },
      null,
    ])
    assert.deepEqual(endpoints, [2, 3])
    assert.deepEqual(special, [{ endpoint: 2, variant: 0 }])
    assert.deepEqual(bodies, ['{"n":1.0}'])
  })

  test('has each form once: equal shapes share it, pseudonyms and stored signatures do not', () => {
    const secret = 'whsec_AAAA'
    const { special, variants, bodies } = treated([
      { shape: withoutId },
      { shape: { ...withoutId } },
      { shape: pseudonymous, regionSecret: 'r' },
      { shape: pseudonymous, regionSecret: 'r' },
      { shape: withoutId, signature: 'stored', secret },
      { signature: 'stored', secret },
      { signature: 'github', secret },
    ])
    assert.deepEqual(
      special?.map(({ variant }) => variant),
      [0, 0, 1, 2, 3, 4],
    )
    assert.notEqual(bodies?.[1], bodies?.[2])
    assert.deepEqual([bodies?.[3], bodies?.[4]], ['{"n":1.0}', null])
    assert.deepEqual(
      variants?.map(({ signature }) => signature?.length),
      [undefined, undefined, undefined, 64, 64],
    )
  })

  test('is dead from the start where it cannot be shaped, and nowhere else', () => {
    const wishes = [{ shape: withoutId }, null, { signature: 'stored' as const, secret: 's' }]
    const { endpoints, special, bodies } = treated(wishes, Buffer.from('not JSON'))
    assert.deepEqual(endpoints, [1, 2, 3])
    assert.deepEqual(special, [
      { endpoint: 1, drop: 'unshapable' },
      { endpoint: 3, variant: 0 },
    ])
    assert.deepEqual(bodies, [null])
    const dropping = subscribed({ shape: withoutId, whileDisabled: 'drop' }).map((each) => ({
      ...each,
      ...(each.treatment && { treatment: { ...each.treatment, disabled: true } }),
    }))
    const dropped = allAtOnce(
      treat(prepareTreatments(dropping) ?? new Map(), envelope, new Forms(body, new Work()), [1]),
    )
    assert.deepEqual(dropped.special, [{ endpoint: 1, variant: 0, drop: 'disabled' }], 'in its form, for a replay')
    const unopened = treated([{ shape: pseudonymous, regionSecret: null }])
    assert.deepEqual(unopened.special, [{ endpoint: 1, drop: 'unshapable' }])
  })

  test('has a thousand stored forms at most; every further endpoint gets its form when it is sent', () => {
    const many = Array.from({ length: 1100 }, () => ({ shape: pseudonymous, regionSecret: 'r' }))
    const { endpoints, special, variants } = treated([...many, { shape: withoutId }])
    assert.deepEqual([endpoints.length, special?.length, variants?.length], [1101, 1000, 1000])
    const large = Buffer.from(JSON.stringify({ id: 1, text: 'x'.repeat(4 * 1024 * 1024) }))
    assert.equal(treated(many.slice(0, 5), large).variants?.length, 1)
    const signing = Array.from({ length: 50 }, () => ({ signature: 'stored' as const, secret: 'whsec_AAAA' }))
    assert.equal(treated(signing, large).variants?.length, 32)
  })

  test('is not held up by any number of filters', () => {
    const large = Buffer.from(JSON.stringify({ list: Array.from({ length: 100_000 }, (_, i) => i) }))
    const heavy = Array.from({ length: 300 }, (_, i) => ({ filter: `payload.list.exists(x, x == ${99_000 + i})` }))
    const { endpoints, special } = treated([...heavy, { filter: 'payload.list[7] == 7' }], large)
    const unfiltered = special?.filter(({ drop }) => drop === 'unfiltered').map(({ endpoint }) => endpoint)
    assert.deepEqual(
      unfiltered,
      Array.from({ length: 300 }, (_, i) => i + 1),
    )
    assert.ok(endpoints.includes(301) && !unfiltered?.includes(301), 'a cheap filter is still asked')
  })

  test('has filters asked as long as there is work left, and then leaves a dead letter for each', () => {
    const list = Buffer.from(JSON.stringify({ list: Array.from({ length: 12_000 }, (_, i) => i) }))
    const heavy = Array.from({ length: 100 }, (_, i) => ({ filter: `payload.list.exists(x, x == ${11_000 + i})` }))
    const { endpoints, special } = treated(heavy, list)
    assert.equal(endpoints.length, 100, 'no delivery is lost without a trace')
    const unfiltered = special?.filter(({ drop }) => drop === 'unfiltered').length ?? 0
    assert.ok(unfiltered > 50 && unfiltered < 95, `${unfiltered}`)
  })

  test('has no filter asked about a body that would take too long to parse', () => {
    const many = Object.fromEntries(Array.from({ length: 60_000 }, (_, i) => [`k${i}`, 1]))
    const { endpoints, special } = treated([{ filter: 'payload.k1 == 1' }, null], Buffer.from(JSON.stringify(many)))
    assert.deepEqual(endpoints, [1, 2])
    assert.deepEqual(special, [{ endpoint: 1, drop: 'unfiltered' }])
  })

  test('makes a dead letter of a form that is larger than a form may be', () => {
    const body = Buffer.from(JSON.stringify({ list: Array.from({ length: 100_000 }, () => 1) }))
    const large = { ...none, pseudonymize: ['/list/*'] }
    const { endpoints, special, variants } = treated([{ shape: large, regionSecret: 'secret' }], body)
    assert.deepEqual([endpoints, special, variants], [[1], [{ endpoint: 1, drop: 'unshapable' }], undefined])
  })

  test('uses up work by the bytes that pseudonyms add, and none beyond the largest form', () => {
    const wide = (values: number) => Buffer.from(JSON.stringify({ list: Array.from({ length: values }, () => 1) }))
    const shape = { ...none, pseudonymize: ['/list/*'] }
    const worked = (values: number) => {
      const work = new Work()
      const before = work.left
      const treatments = prepareTreatments(subscribed({ shape, regionSecret: 'secret' })) ?? new Map()
      allAtOnce(treat(treatments, envelope, new Forms(wide(values), work), [1]))
      return before - work.left
    }
    assert.ok(worked(10_000) > 10_000 * 49, `${worked(10_000)}`)
    const most = 4 * 1024 * 1024
    for (const values of [100_000, 400_000]) {
      const steps = worked(values) - wide(values).length * 0.2
      assert.equal(Math.round(steps), most)
    }
  })

  test('has its filter asked once, however many share it', () => {
    const { endpoints } = treated(Array.from({ length: 5000 }, () => ({ filter: 'payload.n == 1' })))
    assert.equal(endpoints.length, 5000)
  })
})
