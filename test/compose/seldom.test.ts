import assert from 'node:assert/strict'
import { test } from 'node:test'
import { seldom } from '../../src/compose/seldom.ts'
import { VirtualClock } from '../virtual-clock.ts'

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
