import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { FrameReader, header } from '../../bench/http-frames.ts'
import { latencyFigures, median, percentile } from '../../bench/percentile.ts'
import { journey } from '../../bench/receiving.ts'
import { isMet, rounded } from '../../bench/report.ts'
import { sliceMs, steadyRate } from '../../bench/steady-rate.ts'

test('a percentile is the smallest value that the share does not exceed', () => {
  const hundred = Array.from({ length: 100 }, (_, i) => i + 1)
  assert.equal(percentile(hundred, 0.5), 50)
  assert.equal(percentile(hundred, 0.99), 99)
  assert.equal(percentile(hundred, 1), 100)
  assert.equal(percentile([7], 0.01), 7)
  assert.ok(Number.isNaN(percentile([], 0.5)))
})

test('percentiles are taken by size, not in the order of arrival or of spelling', () => {
  assert.deepEqual(latencyFigures([100, 9, 20]), { p50Ms: 20, p95Ms: 100, p99Ms: 100 })
})

test('the median of an even number of runs lies between the two in the middle', () => {
  assert.equal(median([30, 10, 20]), 20)
  assert.equal(median([40, 10, 20, 30]), 25)
})

test('the steady rate leaves out a slow start and a long tail', () => {
  const perSlice = 1000
  const timeline = [0, 0, 10, ...Array(100).fill(perSlice), 10, 1, 0, 0]
  assert.equal(steadyRate(timeline), (perSlice * 1000) / sliceMs)
})

test('a pause in the middle of a run lowers the steady rate', () => {
  const busy = Array(50).fill(1000)
  assert.ok(steadyRate([...busy, ...Array(50).fill(0), ...busy]) < 15_000)
})

test('nothing received is a rate of nothing', () => {
  assert.equal(steadyRate(new Uint32Array(10)), 0)
})

test('frames are found however the stream is cut', () => {
  const one = 'POST /a HTTP/1.1\r\nWebhook-Id: msg_1\r\ncontent-length: 5\r\n\r\nhello'
  const two = 'POST /b HTTP/1.1\r\nwebhook-id: msg_2\r\n\r\n'
  const stream = Buffer.from(one + two + one)
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: stream.length })), (cuts) => {
      const reader = new FrameReader()
      const found: string[] = []
      const edges = [0, ...cuts.sort((a, b) => a - b), stream.length]
      for (let i = 1; i < edges.length; i++) {
        reader.read(stream.subarray(edges[i - 1], edges[i]), (head, body) =>
          found.push(`${head.slice(5, 7)} ${header(head, 'webhook-id')} ${body}`),
        )
      }
      assert.deepEqual(found, ['/a msg_1 hello', '/b msg_2 ', '/a msg_1 hello'])
    }),
  )
})

test('a body of unknown length is refused rather than misread', () => {
  const chunked = Buffer.from('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n')
  assert.throws(() => new FrameReader().read(chunked, () => {}), /chunked/)
})

test('a journey joins what was sent with what arrived, by id', () => {
  const load = {
    accepted: 2,
    refused: {},
    startedAt: 0,
    endedAt: 10,
    latency: latencyFigures([]),
    ids: ['msg_1', 'msg_2'],
    sentAt: Float64Array.of(1, 2),
    acceptedAt: Float64Array.of(3, 9),
  }
  const stamps = Float64Array.of(8, 8, 8)
  const record = {
    path: '/0',
    requests: 3,
    ids: ['msg_2', 'msg_0', 'msg_1'],
    stamps,
    notBefore: stamps,
    answered: Float64Array.of(18, 28, 38),
  }
  assert.deepEqual(journey(load, [record]), { sinceAccepted: [0, 5], sinceSent: [6, 7], untilAnswered: [9, 35] })
})

test('a target is missed by a figure that is too low, too high or not known', () => {
  assert.equal(isMet({ ratio: 0.4 }, { figure: 'ratio', atLeast: 0.4 }), true)
  assert.equal(isMet({ ratio: 0.39 }, { figure: 'ratio', atLeast: 0.4 }), false)
  assert.equal(isMet({ lost: 1 }, { figure: 'lost', atMost: 0 }), false)
  assert.equal(isMet({ rssMb: Number.NaN }, { figure: 'rssMb', atMost: 300 }), false)
  assert.equal(isMet({}, { figure: 'rssMb', atMost: 300 }), false)
})

test('figures are written with four significant digits, whole numbers whole', () => {
  assert.equal(rounded(0.123456), 0.1235)
  assert.equal(rounded(21_345.678), 21_350)
  assert.equal(rounded(240_001), 240_001)
})
