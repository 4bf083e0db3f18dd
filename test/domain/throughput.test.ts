import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Throughput } from '../../src/domain/rate.ts'

/** Notes one every `everyMs`, up to `until`. */
function steady(throughput: Throughput, from: number, until: number, everyMs: number): void {
  for (let now = from; now <= until; now += everyMs) throughput.note(now)
}

test('a steady pace is measured exactly, however long it lasts', () => {
  const throughput = new Throughput(0)
  for (let from = 100; from < 60_000; from += 4300) {
    steady(throughput, from, from + 4200, 100)
    const told = throughput.perSecond(from + 4200) ?? 0
    assert.ok(Math.abs(told - 10) < 0.5, `${told} a second`)
  }
})

test('before a second has passed the pace is unknown', () => {
  const throughput = new Throughput(5000)
  throughput.note(5001)
  assert.equal(throughput.perSecond(5999), undefined)
  assert.equal(throughput.perSecond(6000), 1)
})

test('attempts of long ago are forgotten', () => {
  const throughput = new Throughput(0)
  steady(throughput, 100, 10_000, 100)
  assert.ok((throughput.perSecond(19_000) ?? 0) > 4)
  assert.equal(throughput.perSecond(60_000), 0)
  throughput.note(61_000)
  assert.ok((throughput.perSecond(61_000) ?? 0) < 1)
})
