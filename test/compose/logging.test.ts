import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreTroubles, seldom } from '../../src/compose/logging.ts'
import { StoreTrouble } from '../../src/store/store.ts'
import { VirtualClock } from '../virtual-clock.ts'

const second = 1000
const gone = new StoreTrouble('postgres: connect ECONNREFUSED')

/** A store that answers, or not, and the lines that are logged about it. */
function begin() {
  const clock = new VirtualClock()
  const lines: string[] = []
  const state = { answers: true }
  const warn = (first: unknown, second?: string) =>
    lines.push(typeof first === 'string' ? first : `${second} ${(first as { err: Error }).err.message}`)
  const troubles = new StoreTroubles(clock, { warn } as never)
  troubles.follow({ ping: () => (state.answers ? Promise.resolve() : Promise.reject(gone)) })
  return { clock, lines, state, troubles }
}

test('an outage is one line when it begins, one every ten seconds and one at its end, however many parts meet it', async () => {
  const { clock, lines, state, troubles } = begin()
  state.answers = false
  for (let i = 0; i < 250; i++) {
    troubles.note(gone, 'trouble while delivering; trying again')
    troubles.say('postgres: the listening connection was lost')
    await clock.advance(100)
  }
  state.answers = true
  await clock.advance(5 * second)
  const [lost, first, second_, back, ...more] = lines
  assert.equal(lost, 'store lost: postgres: the listening connection was lost')
  assert.match(String(first), /^store still lost after 1[01] s: /)
  assert.match(String(second_), /^store still lost after 2[012] s: /)
  assert.match(String(back), /^store back after 2[567] s$/)
  assert.deepEqual(more, [])
  // The next outage is another one.
  state.answers = false
  troubles.note(gone, 'x')
  await clock.advance(second)
  assert.equal(lines.length, 5)
})

test('trouble while the store answers is one line in ten seconds, and a bug keeps its stack', async () => {
  const { clock, lines, troubles } = begin()
  for (let i = 0; i < 30; i++) {
    troubles.note(new StoreTrouble('postgres: deadlock detected'), 'x')
    await clock.advance(200)
  }
  assert.deepEqual(lines, ['trouble with the store, trying again: postgres: deadlock detected'])
  troubles.note(new TypeError('oops'), 'trouble while leading; trying again')
  assert.equal(lines[1], 'trouble while leading; trying again oops')
})

test('a store that does not answer at all is lost, and nothing is logged after the end', async () => {
  const { clock, lines, troubles } = begin()
  troubles.follow({ ping: () => new Promise(() => {}) })
  troubles.note(gone, 'x')
  await clock.advance(3 * second)
  assert.deepEqual(lines, ['store lost: postgres: connect ECONNREFUSED'])
  troubles.stop()
  await clock.advance(60 * second)
  assert.equal(lines.length, 1)
})

test('a sentence is said once an hour, and others are said meanwhile', async () => {
  const clock = new VirtualClock()
  const said: string[] = []
  const say = seldom(clock, (sentence) => said.push(sentence))
  for (let i = 0; i < 3; i++) for (const sentence of ['one', 'two']) say(sentence)
  assert.deepEqual(said, ['one', 'two'])
  await clock.advance(61 * 60_000)
  say('one')
  assert.deepEqual(said, ['one', 'two', 'one'])
})
