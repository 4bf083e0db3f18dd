import fc from 'fast-check'

const surrogates = { first: 0xd800, count: 0x800 }

/**
 * Any code point that is a character, as the unit of a text. `unit: 'binary'` means the same, and builds a table of all 1.1
 * million of them first: a second of processor time and 100 MB in each process.
 */
export const anyCharacter = fc.nat(0x10ffff - surrogates.count).map(
  (n) => String.fromCodePoint(n < surrogates.first ? n : n + surrogates.count),
  (text) => {
    const point = typeof text === 'string' ? text.codePointAt(0) : undefined
    if (point === undefined || String.fromCodePoint(point) !== text) throw new Error('it is no single character')
    return point < surrogates.first ? point : point - surrogates.count
  },
)
