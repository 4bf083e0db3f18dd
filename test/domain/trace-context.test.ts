import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readTraceContext, traceHeadersOf } from '../../src/domain/trace-context.ts'

const ids = '0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331'
const parent = `00-${ids}-01`

for (const [traceparent, kept] of [
  [parent, parent],
  [` ${parent}\t`, parent],
  [`00-${ids}-00`, `00-${ids}-00`],
  // The flag of a random trace id is known, all others are not.
  [`00-${ids}-ff`, `00-${ids}-03`],
  // A later version may have more fields; the known ones are read.
  [`cc-${ids}-01`, parent],
  [`01-${ids}-01-what-comes-later`, parent],
] as const) {
  test(`traceparent '${traceparent}' is kept as '${kept}'`, () => {
    assert.equal(readTraceContext(traceparent, undefined), kept)
  })
}

for (const traceparent of [
  undefined,
  '',
  'nonsense',
  `ff-${ids}-01`,
  `00-${ids}-01-more`,
  `00-${ids}-01-`,
  `01-${ids}-01.more`,
  `00-${ids}-1`,
  `00-${ids}-0x`,
  `0-${ids}-01`,
  `00-${ids.toUpperCase()}-01`,
  `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
  `00-0af7651916cd43dd8448eb211c80319c-${'0'.repeat(16)}-01`,
  // Two headers, as Node joins them or as a list.
  `${parent}, ${parent}`,
  [parent, parent],
  `${parent}\n`.repeat(2),
  `00-${ids}-01${'-x'.repeat(1)}`,
]) {
  test(`traceparent ${JSON.stringify(traceparent)} is ignored, with its state`, () => {
    assert.equal(readTraceContext(traceparent, 'a=1'), null)
  })
}

const long = 'v'.repeat(256)
for (const [tracestate, kept] of [
  ['rojo=00f067aa0ba902b7,congo=t61rcWkgMzE', 'rojo=00f067aa0ba902b7,congo=t61rcWkgMzE'],
  [' a=1 ,\t, b=2,', 'a=1,b=2'],
  [['a=1', 'b=2'], 'a=1,b=2'],
  ['fw529a3039@dt=FfffffffffffffffffffffffffffffFF', 'fw529a3039@dt=FfffffffffffffffffffffffffffffFF'],
  ['a=in the middle', 'a=in the middle'],
  [`k=${long}`, `k=${long}`],
  ['', null],
  [' , ,', null],
  ['no-value', null],
  ['UPPER=1', null],
  ['a=1=2', null],
  ['a=', null],
  ['a=1,a=2', null],
  ['a=\u00e9', null],
  ['a=1\r\nx-injected: 1', null],
  [`k=${long}v`, null],
  [`a=${long},b=${long}`, null],
  [Array.from({ length: 33 }, (_, i) => `k${i}=1`).join(','), null],
  ['x'.repeat(100_000), null],
] as const) {
  test(`tracestate ${JSON.stringify(tracestate).slice(0, 60)} is kept as ${String(kept).slice(0, 40)}`, () => {
    const context = readTraceContext(parent, tracestate)
    assert.ok(context)
    assert.deepEqual(traceHeadersOf(context), { traceparent: parent, tracestate: kept })
  })
}
