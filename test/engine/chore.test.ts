import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Chore } from '../../src/engine/chore.ts'
import { VirtualClock } from '../virtual-clock.ts'

function choreOver(steps: (() => Promise<boolean>)[]) {
  const clock = new VirtualClock()
  const troubles: unknown[] = []
  let done = 0
  const step = () => {
    done++
    return (steps.shift() ?? (async () => false))()
  }
  const chore = new Chore(clock, step, (error) => void troubles.push(error))
  return { clock, chore, troubles, done: () => done }
}

test('a chore goes on step by step while there is more, and then rests until it is asked for', async () => {
  const { clock, chore, done } = choreOver([async () => true, async () => true])
  chore.ask()
  await clock.advance(10)
  assert.equal(done(), 3)
  await clock.advance(60_000)
  assert.equal(done(), 3)
  chore.ask()
  await clock.advance(10)
  assert.equal(done(), 4)
})

test('asked for while it is under way, it looks once more, and never twice at a time', async () => {
  const held = Promise.withResolvers<boolean>()
  const { clock, chore, done } = choreOver([() => held.promise])
  chore.ask()
  for (let i = 0; i < 5; i++) chore.ask()
  await clock.advance(10)
  assert.equal(done(), 1)
  held.resolve(false)
  await clock.advance(10)
  assert.equal(done(), 2)
})

test('trouble is told, and the rest is left until the next time', async () => {
  const { clock, chore, troubles, done } = choreOver([() => Promise.reject(new Error('gone')), async () => true])
  chore.ask()
  await clock.advance(60_000)
  assert.deepEqual([done(), troubles.length], [1, 1])
  chore.ask()
  await clock.advance(10)
  assert.equal(done(), 3)
})

test('a stopped chore begins nothing more', async () => {
  const { clock, chore, done } = choreOver([async () => true])
  chore.ask()
  chore.stop()
  await clock.advance(10)
  chore.ask()
  await clock.advance(10)
  assert.equal(done(), 1)
})
