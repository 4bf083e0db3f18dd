import hooks from 'node:async_hooks'
import { appendFileSync, readFileSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'

/**
 * Loaded by `test/run.ts` into every process of tests, before the first test.
 *
 * The test runner of Node follows every promise, to name the test that a stray error belongs to. That takes 1 µs per
 * `await`: half of the time of the simulation. It follows timers and sockets only, here. A stray rejection still fails
 * its file, and is printed with its stack.
 */
const { createHook } = hooks
hooks.createHook = (callbacks) => createHook({ ...callbacks, trackPromises: false })

if (isMainThread) {
  process.on('unhandledRejection', (error) => console.error('A rejection without an owner:', error))
}

/** The variable that names the file to which each process of tests adds a line about its processor time. */
export const costVariable = 'TESTS_COST'

const costs = process.env[costVariable]
if (costs !== undefined && isMainThread) {
  process.on('exit', () => appendFileSync(costs, `${processorSeconds()} ${process.argv[1]}\n`))
}

/** The processor time of this process and of its children that have ended. Linux only. */
export function processorSeconds(): number {
  const ticksPerSecond = 100
  const stat = readFileSync('/proc/self/stat', 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [user, system, childrenUser, childrenSystem] = fields.slice(11, 15).map(Number) as [
    number,
    number,
    number,
    number,
  ]
  return (user + system + childrenUser + childrenSystem) / ticksPerSecond
}
