import type { Delivering } from '../compose/delivering.ts'
import type { Logger } from '../runtime/log.ts'
import { StoreTrouble } from '../store/store.ts'
import { exitCode } from './outcome.ts'

/**
 * Stops the deliveries and returns the exit code. When the store cannot be reached, the lanes are not released, and
 * nothing is lost: other workers take over when the lease expires.
 */
export async function stopDelivering(delivering: Delivering, limitMs: number, log: Logger): Promise<number> {
  try {
    await delivering.stop(limitMs)
    log.info('stopped')
    return exitCode.ok
  } catch (error) {
    if (!(error instanceof StoreTrouble)) throw error
    log.error({ err: error }, 'stopped without releasing lanes: the store cannot be reached')
    return exitCode.failed
  }
}
