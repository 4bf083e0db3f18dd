// performance.now() starts at zero in every process; hrtime has one origin for the whole machine but costs more to
// read. Their difference is constant, so it is taken once.
const originMs = Number(process.hrtime.bigint()) / 1e6 - performance.now()

/** Milliseconds of a clock that never jumps and that every process of this machine reads alike. */
export function machineNow(): number {
  return originMs + performance.now()
}
