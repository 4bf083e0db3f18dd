import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ArrivalFloods } from '../../src/operations/caller-limits.ts'

const [one, other] = [1, 2]
const hub = '192.0.2.1'

/** Floods of 6 refused requests a minute for each address, 60 for each source. */
function begin() {
  const clock = { now: 0, steady: () => clock.now }
  const floods = new ArrivalFloods(clock, 6)
  /** Closes a source to strangers. */
  const close = (source: number) => {
    for (let i = 0; i < 10; i++) floods.refused(source, `198.51.100.${i}`, 6)
    assert.ok(floods.waitMs(source, '203.0.113.7') > 0)
  }
  return { clock, floods, close }
}

test('a source is closed by ten addresses, and by no number of refused requests of nine', () => {
  const { floods } = begin()
  for (let round = 0; round < 100; round++) {
    for (let i = 0; i < 9; i++) floods.refused(one, `198.51.100.${i}`, 100)
  }
  assert.equal(floods.waitMs(one, hub), 0)
  floods.refused(one, '198.51.100.9', 6)
  assert.ok(floods.waitMs(one, hub) > 0)
  assert.equal(floods.waitMs(other, hub), 0)
})

test('the addresses of an IPv6 client count as one', () => {
  const { floods } = begin()
  for (let i = 0; i < 1000; i++) floods.refused(one, `2001:db8:0:7::${i.toString(16)}`, 6)
  assert.ok(floods.waitMs(one, '2001:db8:0:7::ffff') > 0)
  assert.equal(floods.waitMs(one, '2001:db8:0:8::1'), 0)
})

test('an address that sent a genuine request is let through for a week', () => {
  const { clock, floods, close } = begin()
  floods.trust(one, hub)
  close(one)
  assert.equal(floods.waitMs(one, hub), 0)
  clock.now += 7 * 86_400_000
  close(one)
  assert.ok(floods.waitMs(one, hub) > 0)
})

test('forged requests of a trusted address count for it alone, up to twenty times as many', () => {
  const { clock, floods } = begin()
  floods.trust(one, hub)
  for (let i = 0; i < 119; i++) floods.refused(one, hub, 1)
  assert.equal(floods.waitMs(one, hub), 0)
  floods.refused(one, hub, 1)
  assert.equal(floods.waitMs(one, hub), 500)
  assert.equal(floods.waitMs(one, '203.0.113.7'), 0, 'the source stays open')
  clock.now += 500
  assert.equal(floods.waitMs(one, hub), 0)
})

test('genuine senders of one source do not drive those of another out of memory', () => {
  const { floods, close } = begin()
  floods.trust(one, hub)
  for (let i = 0; i < 20_000; i++) floods.trust(other, `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`)
  close(one)
  close(other)
  assert.equal(floods.waitMs(one, hub), 0)
  assert.ok(floods.waitMs(other, '10.0.0.0') > 0, 'the oldest of a source are forgotten')
  assert.equal(floods.waitMs(other, `10.0.${19_999 >> 8}.${19_999 & 255}`), 0)
})
