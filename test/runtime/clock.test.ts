import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '../../src/runtime/clock.ts'

test('a timer fires once after its wait and can be cancelled', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const fired: string[] = []
  systemClock.after(100, () => fired.push('kept'))
  const cancel = systemClock.after(50, () => fired.push('cancelled'))
  cancel()
  t.mock.timers.tick(99)
  assert.deepEqual(fired, [])
  t.mock.timers.tick(1)
  t.mock.timers.tick(1000)
  assert.deepEqual(fired, ['kept'])
})

test('a wait longer than the longest timer of the platform is kept and can still be cancelled', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const month = 30 * 24 * 3_600_000
  let fired = 0
  systemClock.after(month, () => fired++)
  const cancel = systemClock.after(month, () => assert.fail('was cancelled'))
  t.mock.timers.tick(2 ** 31 - 1)
  assert.equal(fired, 0)
  cancel()
  t.mock.timers.tick(month - 2 ** 31)
  assert.equal(fired, 0)
  t.mock.timers.tick(1)
  assert.equal(fired, 1)
})

test('work that is asked for soon happens after the turn, in order', async () => {
  const seen: string[] = []
  await new Promise<void>((done) => {
    systemClock.soon(() => seen.push('first'))
    systemClock.soon(() => {
      seen.push('second')
      done()
    })
    queueMicrotask(() => seen.push('turn'))
  })
  assert.deepEqual(seen, ['turn', 'first', 'second'])
})
