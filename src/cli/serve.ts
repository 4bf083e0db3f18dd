import type { Delivering } from '../compose/delivering.ts'
import type { MetricsServer } from '../compose/metrics.ts'
import type { Parts } from '../compose/parts.ts'
import { hashApiKey, makeApiKey, makeSignInLink } from '../operations/auth.ts'
import { isLoopback, type Loaded, oldKeyName } from '../runtime/config.ts'
import type { Logger } from '../runtime/log.ts'
import { type Address, formatAddress } from '../runtime/setting-kinds.ts'
import type { Config } from '../runtime/settings.ts'
import { type Store, StoreTrouble } from '../store/store.ts'
import { banner } from './banner.ts'
import type { World } from './command.ts'
import { CommandError, exitCode } from './exit.ts'
import { assertFree, cannotListen } from './receiver.ts'

/** `sluice serve`: the API and the deliveries in one process. */
export async function serve(world: World, { config, origins }: Loaded): Promise<number> {
  const { terminal } = world
  const stopRequested = terminal.stopRequested()
  const log = world.openLog(config)
  // Before the store is made: a start that fails leaves nothing behind.
  await assertFree(config.listen)
  if (config.metricsListen !== null) await assertFree(config.metricsListen)
  const parts = await world.openParts(config, log, 'owner', origins)
  const { store } = parts
  const newKey = parts.adminKey === null ? await createFirstKey(world, store) : undefined
  const api = await parts.openApi()
  let metrics: MetricsServer | undefined
  try {
    const address = await api.listen(config.listen).catch((error: unknown) => {
      throw cannotListen(error, config.listen)
    })
    metrics = await offerMetrics(parts, config, log)
    const description = `sluice serve (${terminal.description}, listening on ${formatAddress(address)})`
    const delivering = await parts.startDelivering(description)
    const signInLink = await signInLinkOf(world, config, parts, address)
    const hints = { newKey, signInLink, isEmpty: !(await store.hasMessages()), warnings: warningsOf(config, parts) }
    terminal.print(banner(world, config, address, hints))
    log.info({ listen: formatAddress(address) }, 'started')

    const signal = await stopRequested
    log.info({ signal }, 'stopping')
    await api.close()
    return await stopDelivering(delivering, config.shutdownLimit, log)
  } finally {
    await api.close()
    await metrics?.close()
    await store.close()
  }
}

/** Offers metrics at an address of their own, if the settings name one. */
async function offerMetrics(parts: Parts, { metricsListen }: Config, log: Logger): Promise<MetricsServer | undefined> {
  if (metricsListen === null) return undefined
  const server = await parts.listenForMetrics(metricsListen).catch((error: unknown) => {
    throw cannotListen(error, metricsListen)
  })
  log.info({ metrics: `http://${formatAddress(server.address)}/metrics` }, 'metrics are offered')
  return server
}

/** Settings that take effect in another way than their names suggest, each with the remedy. */
function warningsOf(config: Config, { adminKey }: Parts): string[] {
  const warnings: string[] = []
  if (adminKey !== null && config.adminKey === null) warnings.push(oldKeyName)
  if (config.local && config.allowNetworks === null && !isLoopback(config.listen.host)) {
    warnings.push(
      `--local has no effect: it needs a server on loopback, and this one listens on ${config.listen.host}. ` +
        'Listen on 127.0.0.1, or permit loopback endpoints with --allow-networks 127.0.0.0/8,::1/128.',
    )
  }
  return warnings
}

/**
 * A link to the dashboard that signs in once, for a server on the machine of its operator. Elsewhere the output is often
 * kept as a log, and a link that signs in has no place there.
 */
async function signInLinkOf(world: World, config: Config, { store, adminKey }: Parts, address: Address) {
  if (!config.local || !isLoopback(config.listen.host)) return undefined
  const key = adminKey === null ? await store.findAdminKey() : undefined
  const owner = adminKey !== null ? { adminHash: hashApiKey(adminKey) } : key && { apiKey: key.key }
  const url = config.publicUrl ?? `http://${formatAddress(address)}`
  return owner && makeSignInLink({ store, randomText: world.randomText }, owner, url)
}

/** Makes the first admin key of a store; undefined when the store has one. Only its hash is stored. */
async function createFirstKey(world: World, store: Store): Promise<string | undefined> {
  if ((await store.countAdminKeys()) > 0) return undefined
  const key = makeApiKey(world.randomText)
  await store.createApiKey({ name: 'admin', hash: hashApiKey(key), scopes: ['admin'] })
  return key
}

/** `sluice worker`: delivers without an API, together with other workers on one Postgres database. */
export async function worker(world: World, { config }: Loaded): Promise<number> {
  if (config.store.kind === 'sqlite') {
    throw new CommandError(
      'Workers need a Postgres store. With SQLite, `sluice serve` delivers by itself. Set --store postgres://… to add workers.',
      exitCode.misused,
    )
  }
  const { terminal } = world
  const stopRequested = terminal.stopRequested()
  const log = world.openLog(config)
  if (config.metricsListen !== null) await assertFree(config.metricsListen)
  const parts = await world.openParts(config, log)
  let metrics: MetricsServer | undefined
  try {
    metrics = await offerMetrics(parts, config, log)
    const description = `sluice worker (${terminal.description})`
    const delivering = await parts.startDelivering(description)
    terminal.print(`Sluice ${world.version}: delivering as a worker`)
    log.info('started')

    const signal = await stopRequested
    log.info({ signal }, 'stopping')
    return await stopDelivering(delivering, config.shutdownLimit, log)
  } finally {
    await metrics?.close()
    await parts.store.close()
  }
}

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
    log.error(`stopped without releasing lanes: the store cannot be reached: ${error.message}`)
    return exitCode.failed
  }
}
