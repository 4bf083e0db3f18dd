import type { Logger } from '../runtime/log.ts'
import { StoreTrouble } from '../store/store.ts'
import { exitCode } from './outcome.ts'
import type { Delivering } from './world.ts'

/**
 * Ends the deliveries; the answer is the exit code. When the store is out of reach nothing can be handed back, and
 * nothing is lost by it: other workers take over when the lease has run out.
 */
export async function stopDelivering(delivering: Delivering, limitMs: number, log: Logger): Promise<number> {
  try {
    await delivering.stop(limitMs)
    log.info('stopped')
    return exitCode.ok
  } catch (error) {
    if (!(error instanceof StoreTrouble)) throw error
    log.error({ err: error }, 'stopped without handing back: the store cannot be reached')
    return exitCode.failed
  }
}
