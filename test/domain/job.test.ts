import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Job } from '../../src/domain/turns.ts'
import { VirtualClock } from '../virtual-clock.ts'

function jobOver(steps: (() => Promise<boolean>)[]) {
  const clock = new VirtualClock()
  const troubles: unknown[] = []
  let done = 0
  const step = () => {
    done++
    return (steps.shift() ?? (async () => false))()
  }
  const job = new Job(clock, step, (error) => void troubles.push(error))
  return { clock, job, troubles, done: () => done }
}

test('a job goes on step by step while there is more, and then rests until it is requested', async () => {
  const { clock, job, done } = jobOver([async () => true, async () => true])
  job.request()
  await clock.advance(10)
  assert.equal(done(), 3)
  await clock.advance(60_000)
  assert.equal(done(), 3)
  job.request()
  await clock.advance(10)
  assert.equal(done(), 4)
})

test('a request while a step is under way leads to one more step, never to two at a time', async () => {
  const held = Promise.withResolvers<boolean>()
  const { clock, job, done } = jobOver([() => held.promise])
  job.request()
  for (let i = 0; i < 5; i++) job.request()
  await clock.advance(10)
  assert.equal(done(), 1)
  held.resolve(false)
  await clock.advance(10)
  assert.equal(done(), 2)
})

test('trouble is reported, and the rest waits for the next request', async () => {
  const { clock, job, troubles, done } = jobOver([() => Promise.reject(new Error('gone')), async () => true])
  job.request()
  await clock.advance(60_000)
  assert.deepEqual([done(), troubles.length], [1, 1])
  job.request()
  await clock.advance(10)
  assert.equal(done(), 3)
})

test('a stopped job begins nothing more', async () => {
  const { clock, job, done } = jobOver([async () => true])
  job.request()
  job.stop()
  await clock.advance(10)
  job.request()
  await clock.advance(10)
  assert.equal(done(), 1)
})
