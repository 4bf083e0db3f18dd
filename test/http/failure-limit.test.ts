import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FailureLimit, KeyedRate } from '../../src/operations/caller-limits.ts'

test('twenty failures may come at once, then one in three seconds, and waiting longer saves up no more than twenty', () => {
  const limit = new FailureLimit()
  const free = (count: number, now: number) =>
    Array.from({ length: count }, () => limit.note('10.0.0.1', now)).filter((waitMs) => waitMs === 0).length
  assert.equal(free(50, 0), 20)
  assert.equal(limit.note('10.0.0.1', 0), 3000)
  assert.equal(limit.note('10.0.0.1', 2999), 1)
  assert.equal(limit.note('10.0.0.1', 3000), 0)
  assert.equal(limit.note('10.0.0.1', 3000), 3000)
  assert.equal(free(50, 1_000_000), 20)
})

test('being refused does not lengthen the wait', () => {
  const limit = new FailureLimit()
  for (let i = 0; i < 20; i++) limit.note('a', 0)
  for (let i = 0; i < 1000; i++) assert.equal(limit.note('a', 0), 3000)
  assert.equal(limit.note('a', 3000), 0)
})

test('addresses are forgotten, the one that failed longest ago first, so that memory is bounded', () => {
  const limit = new FailureLimit()
  for (let i = 0; i < 20; i++) limit.note('first', 0)
  for (let i = 0; i < 20; i++) limit.note('second', 0)
  assert.equal(limit.note('first', 0), 3000)
  for (let i = 0; i < 9_999; i++) limit.note(`10.0.${i >> 8}.${i & 255}`, 0)
  assert.equal(limit.note('second', 0), 3000)
  assert.equal(limit.note('first', 0), 0)
})

test('IPv6 addresses count by their /64, however they are written; those that wrap IPv4 one by one', () => {
  const limit = new FailureLimit()
  for (let i = 0; i < 20; i++) limit.note(`2001:db8::${i}`, 0)
  assert.equal(limit.note('2001:db8:0:0:ffff::1', 0), 3000)
  assert.equal(limit.note('2001:db8:0:1::1', 0), 0)
  for (let i = 0; i < 20; i++) limit.note('::ffff:10.0.0.1', 0)
  assert.equal(limit.note('::ffff:10.0.0.1', 0), 3000)
  assert.equal(limit.note('::ffff:10.0.0.2', 0), 0)
})

test('costs that are larger than the rest of a bucket empty it, and the debt ends', () => {
  const rate = new KeyedRate(60, 1000)
  for (let i = 0; i < 3; i++) rate.charge('a', 0, 16)
  assert.equal(rate.waitMs('a', 0), 0)
  rate.charge('a', 0, 16)
  assert.equal(rate.waitMs('a', 0), 5000)
  for (let i = 0; i < 1000; i++) rate.charge('a', 0, 16)
  assert.equal(rate.waitMs('a', 0), 61_000, 'a bucket owes no more than it holds')
  assert.equal(rate.waitMs('a', 61_000), 0)
  assert.equal(rate.waitMs('b', 0), 0)
})
