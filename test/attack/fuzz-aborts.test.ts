import { test } from 'node:test'
import { dialects, isLong, Target } from './attack.ts'
import { fuzzAborts } from './fuzz-aborts.ts'

const limits = isLong ? { seconds: 120 } : { requests: 1000 }
const seed = Number(process.env.FUZZ_SEED ?? 20_261_115)

for (const dialect of dialects) {
  test(`${dialect}: requests that are aborted at any moment leave no fault (seed ${seed})`, async (t) => {
    const target = await Target.start(t, dialect)
    t.diagnostic(JSON.stringify(await fuzzAborts(target, { seed, ...limits })))
  })
}
