// performance.now() starts at zero in every process; hrtime has one origin for the whole machine but costs more to read.
// Their difference is constant, so it is taken once. A process that is interrupted between two readings would be wrong by
// as long as that lasted, several milliseconds on a busy machine: of many tries, the quickest counts.
const originMs = differenceOf(() => Number(process.hrtime.bigint()) / 1e6)

/** Milliseconds of a clock that never jumps and that every process of this machine reads alike. */
export function machineNow(): number {
  return originMs + performance.now()
}

function differenceOf(other: () => number): number {
  let best = { took: Number.POSITIVE_INFINITY, difference: 0 }
  for (let i = 0; i < 1000; i++) {
    const before = performance.now()
    const reading = other()
    const took = performance.now() - before
    if (took < best.took) best = { took, difference: reading - before - took / 2 }
  }
  return best.difference
}
