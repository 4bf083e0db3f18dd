import assert from 'node:assert/strict'
import { test } from 'node:test'
import { conditionOf, loadOf, noLoad } from '../../src/domain/condition.ts'
import { forecastQueue, forecastTurn, type LaneOutlook, type Turn } from '../../src/domain/forecast.ts'

const now = Date.UTC(2026, 0, 1)
const second = 1000

/** A lane that sends 50 a second, at its rate limit. */
const lane: LaneOutlook = {
  now,
  freeFrom: now,
  needsOperator: false,
  isProbing: false,
  pace: 50,
  slotsMs: Array(16).fill(0),
  tokens: 1,
  rampMs: 0,
  isUncertain: false,
  arrivals: { recent: 0, lasting: 0 },
  departures: { recent: 50, lasting: 50 },
}
const turn: Turn = { ahead: 1000, line: 1000, isExact: true, notBefore: 0, share: 1, higher: 0, keyMs: 0 }
const arriving = (perSecond: number) => ({ ...lane, arrivals: { recent: perSecond, lasting: perSecond } })

test('a turn comes at the pace of the lane, behind those ahead of it, and not before its own instant', () => {
  assert.deepEqual([forecastTurn(lane, turn).kind, forecastTurn(lane, turn).at], ['at', now + 20 * second])
  assert.equal(forecastTurn(arriving(500), turn).at, now + 20 * second, 'what arrives goes behind it')
  assert.equal(forecastTurn({ ...lane, freeFrom: now + 5 * second }, turn).at, now + 25 * second)
  assert.equal(forecastTurn(lane, { ...turn, notBefore: now + 90 * second }).at, now + 90 * second)
  assert.equal(forecastTurn(lane, { ...turn, keyMs: 30 * second }).at, now + 30 * second)
  assert.match(forecastTurn(lane, turn).sentence, /^1,000 deliveries ahead, at 50\/s: its turn comes at about 00:00:20/)
  assert.match(forecastTurn(lane, { ...turn, ahead: 4213, isExact: false }).sentence, /^About 4,200 deliveries ahead/)
})

test('attempts under way free their slots in the order in which they began, again and again', () => {
  const slow = { ...lane, tokens: Number.POSITIVE_INFINITY, pace: 0.4, slotsMs: [2000, 5000] }
  const at = (line: number) => ((forecastTurn(slow, { ...turn, ahead: line, line }).at as number) - now) / second
  assert.deepEqual([at(0), at(1), at(2), at(3)], [2, 5, 7, 10])
})

test('a class behind others gets its share of the starts, and all of them once the others are gone', () => {
  const retry = { ...turn, ahead: 10, line: 10, higher: 3500, share: 1 / 8 }
  assert.equal(forecastTurn(lane, retry).at, now + Math.round((11 / (50 / 8)) * second))
  const replay = { ...retry, line: 10_000 }
  // 80 s of an eighth of 50/s, and then all of it.
  assert.equal(forecastTurn(lane, replay).at, now + (80 + (10_000 - 500) / 50) * second)
})

test('where the receiver decides, the forecast is a range; before an operator acts, there is none', () => {
  const held = { ...lane, isUncertain: true, freeFrom: now + 30 * second, departures: { recent: 0, lasting: 10 } }
  const { at, latest } = forecastTurn(held, turn)
  assert.deepEqual([at, latest], [now + 50 * second, now + 150 * second])
  assert.equal(forecastTurn({ ...held, departures: { recent: 0, lasting: 0 } }, turn).latest, null)
  assert.equal(forecastTurn({ ...lane, needsOperator: true }, turn).kind, 'needs_operator')
  assert.equal(forecastTurn({ ...lane, isProbing: true, freeFrom: now + 60 * second }, turn).kind, 'if_probe_succeeds')
  assert.equal(forecastTurn({ ...lane, pace: null }, turn).kind, 'unknown')
})

test('a queue drains by what leaves beyond what arrives; one that grows, or stays, has no date', () => {
  const load = { waiting: 7471, isExact: true }
  assert.equal(forecastQueue(lane, load).at, now + Math.round((7471 / 50) * second))
  assert.equal(forecastQueue(arriving(35), { ...load, waiting: 7440 }).at, now + 496 * second)
  const growing = forecastQueue(arriving(68), load)
  assert.deepEqual([growing.kind, growing.at, growing.perSecond], ['growing', null, 18])
  assert.equal(growing.sentence, '7,471 deliveries waiting, growing by 18/s.')
  assert.deepEqual([forecastQueue(arriving(50), load).kind, forecastQueue(arriving(50), load).at], ['steady', null])
  // A burst that is over: it grew over the long window alone.
  const burst = { ...lane, arrivals: { recent: 0, lasting: 200 } }
  assert.equal(forecastQueue(burst, load).kind, 'drains')
})

test('the word for a queue does not flicker: a backlog ends below where it began, and grows until it shrinks', () => {
  const flow = (arrivals: number) => ({ ...arriving(arrivals), departures: { recent: 50, lasting: 50 } })
  assert.deepEqual(loadOf(noLoad, 400, 0, flow(0)), noLoad, 'eight seconds are no backlog')
  const behind = loadOf(noLoad, 600, 0, flow(80))
  assert.deepEqual(behind, { isBehind: true, isGrowing: true })
  assert.equal(loadOf(behind, 400, 0, flow(51)).isGrowing, true)
  assert.deepEqual(loadOf(behind, 400, 0, flow(0)), { isBehind: true, isGrowing: false })
  assert.deepEqual(loadOf(behind, 150, 0, flow(0)), noLoad)
  assert.equal(conditionOf('none', behind, 600), 'falling_behind')
  assert.equal(conditionOf('none', { isBehind: true, isGrowing: false }, 600), 'catching_up')
  assert.equal(conditionOf('time', noLoad, 1), 'blocked')
  assert.equal(conditionOf('time', noLoad, 0), 'keeping_up')
  assert.equal(conditionOf('operator', behind, 600), 'stopped')
})
