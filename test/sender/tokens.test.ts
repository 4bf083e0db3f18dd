import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { OAuth2 } from '../../src/features/credentials/rules.ts'
import type { TokenAnswer, TokenProblem } from '../../src/sender/token-request.ts'
import { type TokenFailure, TokenSource, Tokens } from '../../src/sender/tokens.ts'
import { VirtualClock } from '../virtual-clock.ts'

/** A source over a virtual clock, and the instants at which it asked. */
function sourceAnswering(answer: () => TokenAnswer | TokenProblem) {
  const clock = new VirtualClock()
  const askedAt: number[] = []
  const source = new TokenSource(clock, async () => {
    askedAt.push(clock.steady())
    return answer()
  })
  return { clock, askedAt, source }
}

const minute = 60_000
const good = (lifetimeMs?: number) => {
  let n = 0
  return (): TokenAnswer => ({ token: `t${++n}`, lifetimeMs })
}

test('attempts that start together share one request, and later ones use its token', async () => {
  const { source, askedAt } = sourceAnswering(good(10 * minute))
  const taken = await Promise.all([source.take(), source.take(), source.take()])
  assert.deepEqual(taken, [undefined, undefined, undefined])
  assert.equal(source.take(), undefined)
  assert.equal(source.header, 'Bearer t1')
  assert.equal(askedAt.length, 1)
})

test('a token is replaced a minute before it expires, while attempts go on with the old one', async () => {
  const { source, clock, askedAt } = sourceAnswering(good(10 * minute))
  await source.take()
  await clock.advance(9 * minute - 1)
  assert.equal(source.take(), undefined)
  assert.equal(askedAt.length, 1)
  await clock.advance(1)
  assert.equal(source.take(), undefined)
  assert.equal(source.header, 'Bearer t1')
  await clock.advance(0)
  assert.equal(source.header, 'Bearer t2')
})

for (const [said, lifetimeMs, usedMs] of [
  ['0', 0, 10_000],
  ['-5', -5000, 10_000],
  ['nothing', undefined, 5 * minute],
  ['a thousand years', 3.15e13, 24 * 60 * minute],
  ['infinity', Number.POSITIVE_INFINITY, 24 * 60 * minute],
] as const) {
  test(`a token whose server says ${said} is used for ${usedMs / 1000} s`, async () => {
    const { source, clock, askedAt } = sourceAnswering(good(lifetimeMs))
    await source.take()
    await clock.advance(usedMs * 0.75)
    assert.equal(source.take(), undefined)
    assert.equal(askedAt.length, 1)
    await clock.advance(usedMs * 0.25)
    assert.equal(await source.take(), undefined)
    assert.equal(source.header, 'Bearer t2')
  })
}

test('a token endpoint that is down is asked after gaps that double from a second to a minute', async () => {
  const { source, clock, askedAt } = sourceAnswering(() => ({ message: 'It is down.' }))
  let asks = 0
  for (let ms = 0; ms < 60 * minute; ms += 100) {
    const taken = (await source.take()) as TokenFailure
    asks++
    assert.equal(taken.message, 'It is down.')
    assert.ok(taken.retryInMs >= 1000 && taken.retryInMs <= minute, String(taken.retryInMs))
    await clock.advance(100)
  }
  const gaps = askedAt.slice(1).map((at, i) => at - (askedAt[i] as number))
  assert.deepEqual(
    gaps.slice(0, 7),
    [1, 2, 4, 8, 16, 32, 60].map((s) => s * 1000),
  )
  assert.ok(gaps.slice(7).every((gap) => gap === minute))
  assert.ok(asks === 36_000 && askedAt.length < 70, `${askedAt.length} requests for ${asks} attempts`)
})

test('a Retry-After of the token endpoint is obeyed, up to five minutes', async () => {
  const { source } = sourceAnswering(() => ({ message: 'Later.', retryAfterMs: 90_000 }))
  assert.equal(((await source.take()) as TokenFailure).retryInMs, 90_000)
})

test('an old token is used to its end when its replacement fails', async () => {
  const answers: (TokenAnswer | TokenProblem)[] = [
    { token: 'old', lifetimeMs: 10 * minute },
    { message: 'It is down.' },
    { message: 'It is down.' },
  ]
  const { source, clock } = sourceAnswering(() => answers.shift() as TokenAnswer | TokenProblem)
  await source.take()
  await clock.advance(9 * minute)
  assert.equal(source.take(), undefined)
  await clock.advance(minute - 1)
  assert.equal(source.take(), undefined)
  assert.equal(source.header, 'Bearer old')
  await clock.advance(1)
  assert.equal(((await source.take()) as TokenFailure).message, 'It is down.')
})

test('a refused token is replaced once, however many attempts were refused', async () => {
  const { source, clock, askedAt } = sourceAnswering(good(10 * minute))
  await source.take()
  await clock.advance(5000)
  for (let i = 0; i < 100; i++) source.refuse('Bearer t1')
  assert.equal(await source.take(), undefined)
  assert.equal(source.header, 'Bearer t2')
  for (let i = 0; i < 100; i++) source.refuse('Bearer t1')
  assert.equal(source.take(), undefined)
  assert.equal(askedAt.length, 2)
})

test('a receiver that refuses every token makes few requests to the token endpoint', async () => {
  const { source, clock, askedAt } = sourceAnswering(good(60 * minute))
  for (let ms = 0; ms < 50 * minute; ms += 100) {
    await source.take()
    source.refuse(source.header)
    await clock.advance(100)
  }
  assert.ok(askedAt.length < 60, `${askedAt.length} requests`)
})

const auth: OAuth2 = {
  kind: 'oauth2',
  tokenUrl: 'https://idp.example/token',
  clientId: 'sluice',
  method: 'client_secret_basic',
  secret: 'secret',
  keyId: null,
  scope: null,
  audience: null,
}

test('the same credentials share one source, and any difference parts them', () => {
  const tokens = new Tokens(new VirtualClock(), 20)
  const ask = async () => ({ message: '' })
  const source = tokens.sourceOf(auth, ask)
  assert.equal(tokens.sourceOf({ ...auth }, ask), source)
  const changes = [
    { secret: 'other' },
    { clientId: 'other' },
    { scope: 'x' },
    { audience: 'x' },
    { tokenUrl: 'https://b/' },
  ]
  for (const change of changes) assert.notEqual(tokens.sourceOf({ ...auth, ...change }, ask), source)
})

test('many credentials ask one host at its pace, and those beyond five seconds are refused', async () => {
  const clock = new VirtualClock()
  const tokens = new Tokens(clock, 20)
  const askedAt: number[] = []
  const ask = async () => {
    askedAt.push(clock.steady())
    return { token: 't', lifetimeMs: minute }
  }
  const begin = clock.steady()
  const taken = Array.from({ length: 1000 }, (_, i) => tokens.sourceOf({ ...auth, clientId: `c${i}` }, ask).take())
  for (let i = 0; i < 700; i++) await clock.advance(10)
  const results = await Promise.all(taken)
  const refused = results.filter((result) => result !== undefined)
  assert.ok(askedAt.length >= 100 && askedAt.length <= 130, `${askedAt.length} asked`)
  assert.equal(refused.length, 1000 - askedAt.length)
  assert.match(refused[0]?.message ?? '', /tokenRate/)
  for (let second = 0; second < 6; second++) {
    const within = askedAt.filter((at) => at >= begin + second * 1000 && at < begin + (second + 1) * 1000)
    assert.ok(within.length <= 41, `${within.length} in second ${second}`)
  }
})

test('closing ends every wait for a turn', async () => {
  const tokens = new Tokens(new VirtualClock(), 1)
  let asked = 0
  const ask = async () => {
    asked++
    return { token: 't', lifetimeMs: minute }
  }
  const taken = Array.from({ length: 4 }, (_, i) => tokens.sourceOf({ ...auth, clientId: `c${i}` }, ask).take())
  tokens.close()
  const results = await Promise.all(taken)
  assert.ok(results.some((result) => result?.message.includes('shutting down')))
  assert.ok(asked <= 2)
})
