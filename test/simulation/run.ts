import { fork } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import { World } from './world.ts'

/**
 * npm run test:sim -- --seeds 10000 [--from 1]: runs many seeds on all cores and names those that fail.
 * SIM_SEED=42 npm run test:sim: runs one and shows how it failed.
 */
const { values } = parseArgs({
  options: { seeds: { type: 'string', default: '1000' }, from: { type: 'string', default: '1' } },
})
const count = Number(values.seeds)
const from = Number(values.from)
if (!Number.isInteger(count) || count < 1 || !Number.isInteger(from)) {
  console.error('usage: npm run test:sim -- --seeds <count> [--from <first seed>]')
  process.exit(2)
}

if (process.env.SIM_SEED) await runOne(Number(process.env.SIM_SEED))
else if (process.send) await runShare()
else await runAll()

async function runOne(seed: number): Promise<void> {
  await new World(seed).run()
  console.log(`seed ${seed} keeps every promise`)
}

/** In a child: every `stride`-th seed, telling the parent about each. */
async function runShare(): Promise<void> {
  const stride = Number(process.env.SIM_STRIDE)
  for (let seed = from; seed < from + count; seed += stride) {
    const failure = await new World(seed).run().then(
      () => undefined,
      (error: Error) => error.message.split('\n')[0],
    )
    process.send?.({ seed, failure })
  }
  process.disconnect()
}

async function runAll(): Promise<void> {
  const stride = Math.min(count, availableParallelism())
  let done = 0
  let failed = 0
  const shares = Array.from({ length: stride }, (_, i) => {
    const child = fork(import.meta.filename, ['--seeds', String(count - i), '--from', String(from + i)], {
      env: { ...process.env, SIM_STRIDE: String(stride) },
    })
    child.on('message', ({ seed, failure }: { seed: number; failure?: string }) => {
      done++
      if (failure) {
        failed++
        console.log(`seed ${seed}: ${failure} (replay: SIM_SEED=${seed} npm run test:sim)`)
      }
      if (done % 500 === 0) console.log(`${done} of ${count} seeds`)
    })
    return new Promise<void>((resolve) => child.on('exit', () => resolve()))
  })
  await Promise.all(shares)
  console.log(`${done - failed} passed, ${failed} failed`)
  if (failed > 0 || done < count) process.exit(1)
}
