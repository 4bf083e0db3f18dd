import type { Delivering } from '../compose/delivering.ts'
import type { MetricsServer } from '../compose/metrics.ts'
import type { Parts } from '../compose/parts.ts'
import { apiRoot } from '../domain/api.ts'
import { storeTraits } from '../domain/store-traits.ts'
import { hashApiKey, makeSignInLink, makeToken } from '../operations/auth.ts'
import {
  exposureOf,
  isLoopback,
  keyVariable,
  type Loaded,
  oldKeyName,
  permittedNetworks,
  showSetting,
  urlVariable,
} from '../runtime/config.ts'
import type { Logger } from '../runtime/log.ts'
import { availableCores, type Terminal } from '../runtime/process.ts'
import type { Ports } from '../runtime/processes.ts'
import { type Address, formatAddress } from '../runtime/setting-kinds.ts'
import type { Config } from '../runtime/settings.ts'
import { type Store, StoreTrouble } from '../store/store.ts'
import { defaultUrl, type Options, type World } from './command.ts'
import { assertFree, cannotListen } from './listen.ts'
import { CommandError, exitCode } from './terminal.ts'

/** `sluice serve`: the API and the deliveries, in one process or in several behind one address. */
export async function serve(world: World, loaded: Loaded, options: Options): Promise<number> {
  const { processes, terminal } = world
  const size = processCountOf(loaded.config)
  if (processes.member !== undefined || size === 1) return serveAlone(world, loaded, options)
  const stopRequested = terminal.stopRequested()
  const log = world.openLog(loaded.config)
  const { withEnded } = await import('../metrics/combined.ts')
  return processes.supervise(size, log, stopRequested, withEnded)
}

/** How many processes serve. One process owns a SQLite file. */
function processCountOf({ processes, store }: Config): number {
  const size = processes === 'auto' ? availableCores() : processes
  const { isShared } = storeTraits[store.kind]
  if (isShared || size === 1 || processes === 'auto') return isShared ? size : 1
  throw new CommandError(
    'Several processes need a Postgres store: one process owns a SQLite file. Set --store postgres://… or --processes 1.',
    exitCode.misused,
  )
}

async function serveAlone(world: World, loaded: Loaded, { acceptLoss }: Options): Promise<number> {
  const { terminal } = world
  const { member } = world.processes
  const { origins } = loaded
  const config = withPorts(loaded.config, member?.ports)
  const stopRequested = Promise.race([terminal.stopRequested(), ...(member ? [member.stopRequested] : [])])
  const log = world.openLog(config)
  // Before the store is made: a start that fails leaves nothing behind. Of several processes the first looks for all.
  if (member?.isFirst !== false) {
    await assertFree(config.listen)
    if (config.metricsListen !== null) await assertFree(config.metricsListen)
  }
  const parts = await world.openParts(config, log, { origins, acceptLoss: acceptLoss === true })
  const { store } = parts
  const newKey = parts.adminKey === null ? await createFirstKey(world, store) : undefined
  const api = await parts.openApi()
  let metrics: MetricsServer | undefined
  try {
    const address = await api.listen(config.listen).catch(cannotListen(config.listen))
    metrics = await offerMetrics(parts, config, log)
    const description = `sluice serve (${terminal.description}, listening on ${formatAddress(address)})`
    const delivering = await parts.startDelivering(description)
    const signInLink = await signInLinkOf(world, config, parts, address)
    const hints = { newKey, signInLink, isEmpty: !(await store.hasMessages()), warnings: warningsOf(config, parts) }
    // Of several processes the first prints for all.
    if (member?.isFirst !== false) terminal.print(banner(world, config, address, hints))
    log.info({ listen: formatAddress(address) }, 'started')
    member?.ready({ listen: address.port, metrics: metrics?.address.port })

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

/** The settings with the ports that the first of several processes has. */
function withPorts(config: Config, ports: Ports | undefined): Config {
  if (ports === undefined) return config
  const { listen, metricsListen } = config
  const metrics = metricsListen && { ...metricsListen, port: ports.metrics ?? metricsListen.port }
  return { ...config, listen: { ...listen, port: ports.listen }, metricsListen: metrics }
}

/** Offers metrics at an address of their own, if the settings name one. */
async function offerMetrics(parts: Parts, { metricsListen }: Config, log: Logger): Promise<MetricsServer | undefined> {
  if (metricsListen === null) return undefined
  const server = await parts.listenForMetrics(metricsListen).catch(cannotListen(metricsListen))
  log.info({ metrics: `http://${formatAddress(server.address)}/metrics` }, 'metrics are offered')
  return server
}

/** Settings that take effect in another way than their names suggest, each with the remedy. */
function warningsOf(config: Config, { adminKey }: Parts): string[] {
  const warnings: string[] = []
  if (adminKey !== null && config.adminKey === null) warnings.push(oldKeyName)
  const exposure = exposureOf(config)
  if (exposure !== undefined) warnings.push(exposure)
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
  const key = makeToken('sk', world.randomText)
  await store.createApiKey({ name: 'admin', hash: hashApiKey(key), scopes: ['admin'] })
  return key
}

/** `sluice worker`: delivers without an API, together with other workers on one Postgres database. */
export async function worker(world: World, { config }: Loaded): Promise<number> {
  if (!storeTraits[config.store.kind].isShared) {
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

/** The parts of the banner that depend on the store. */
interface Hints {
  /** The admin key that this start made. */
  readonly newKey: string | undefined
  /** Makes a link to the dashboard that signs in once; undefined where the output may be kept as a log. */
  readonly signInLink: string | undefined
  /** Whether the store has no message yet. */
  readonly isEmpty: boolean
  readonly warnings: readonly string[]
}

/**
 * The text printed at the start: where everything is, and while the store is empty, commands that send a first event,
 * ready to paste. A key is shown only when this start made it; only its hash is stored.
 */
function banner(
  { version, terminal }: World,
  config: Config,
  address: Address,
  { newKey, signInLink, isEmpty, warnings }: Hints,
): string {
  const dim = (text: string) => terminal.style('dim', text)
  const url = `http://${formatAddress(reachable(address))}`
  const dashboard =
    signInLink === undefined
      ? `${url}/ (sign in with a key, or a link of: sluice dashboard)`
      : `${signInLink} (signs in once)`
  const lines = [
    '',
    `${terminal.style('bold', `Sluice ${version}`)}${dim(' — webhook delivery that loses nothing and floods nobody')}`,
    '',
    // No styling around the URL: scripts read it from this line.
    `Listening on http://${formatAddress(address)}`,
    `  ${dim('Dashboard')} ${dashboard}`,
    `  ${dim('API      ')} ${url}${apiRoot} (reference: ${url}/docs)`,
    `  ${dim('Store    ')} ${showSetting('store', config)}`,
    `  ${dim('Targets  ')} ${targets(config)}`,
  ]
  for (const warning of warnings) lines.push('', `${terminal.style('yellow', 'Warning:')} ${warning}`)
  if (newKey !== undefined) {
    const shown = terminal.style(['bold', 'green'], newKey)
    lines.push('', 'Your admin key. Keep it: it is not shown again.', '', `  ${shown}`)
  }
  if (isEmpty) lines.push('', 'Send a first event:', '', ...firstEvent(terminal, config, url, newKey))
  return [...lines, ''].join('\n')
}

function firstEvent(terminal: Terminal, config: Config, url: string, newKey: string | undefined): string[] {
  const dim = (text: string) => terminal.style('dim', text)
  const command = (text: string) => terminal.style('cyan', text)
  const sluice = terminal.command
  const local = permittedNetworks(config).includes('127.0.0.0/8')
  const exports = [
    ...(url === defaultUrl ? [] : [command(`export ${urlVariable}=${url}`)]),
    // Without a new key the caller uses an existing one, which this process does not know.
    command(`export ${keyVariable}=${newKey ?? 'sk_…'}`),
  ]
  const send = command(`${sluice} send demo video.trending '{"hello":"world"}'`)
  if (local) {
    return [
      dim('# in a second and a third terminal'),
      ...exports,
      '',
      dim('# in the second: receive, verify and print'),
      command(`${sluice} listen --app demo`),
      '',
      dim('# in the third: send'),
      send,
    ]
  }
  return [
    dim('# in a second terminal: create an application and an endpoint, then send'),
    ...exports,
    command(`${sluice} app create Demo --uid demo`),
    command(`${sluice} endpoint create demo https://example.com/webhook`),
    send,
  ]
}

function targets(config: Config): string {
  const networks = permittedNetworks(config)
  const http = config.allowHttp ? 'public addresses, http allowed' : 'public addresses over https'
  if (networks.length === 0) return http
  const reason = config.allowNetworks === null ? 'this machine, by --local' : 'by allowNetworks'
  return `${http}, and ${networks.join(', ')} (${reason})`
}

/** An address that reaches the server from this machine, also when it listens on all addresses. */
function reachable({ host, port }: Address): Address {
  if (host === '0.0.0.0') return { host: '127.0.0.1', port }
  return host === '::' ? { host: '::1', port } : { host, port }
}
