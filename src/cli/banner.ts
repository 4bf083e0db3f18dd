import { apiRoot } from '../domain/api.ts'
import { keyVariable, permittedNetworks, showSetting, urlVariable } from '../runtime/config.ts'
import { type Address, formatAddress } from '../runtime/setting-kinds.ts'
import type { Config } from '../runtime/settings.ts'
import { defaultUrl, type World } from './command.ts'

/** The parts of the banner that depend on the store. */
export interface Hints {
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
export function banner(
  { version, terminal }: World,
  config: Config,
  address: Address,
  { newKey, signInLink, isEmpty, warnings }: Hints,
): string {
  const bold = (text: string) => terminal.style('bold', text)
  const dim = (text: string) => terminal.style('dim', text)
  const command = (text: string) => terminal.style('cyan', text)
  const url = `http://${formatAddress(reachable(address))}`
  const lines = [
    '',
    `${bold(`Sluice ${version}`)}${dim(' — webhook delivery that loses nothing and floods nobody')}`,
    '',
    // No styling around the URL: scripts read it from this line.
    `Listening on http://${formatAddress(address)}`,
    `  ${dim('Dashboard')} ${signInLink === undefined ? `${url}/ (sign in with a key, or a link of: sluice dashboard)` : `${signInLink} (signs in once)`}`,
    `  ${dim('API      ')} ${url}${apiRoot} (reference: ${url}/docs)`,
    `  ${dim('Store    ')} ${showSetting('store', config)}`,
    `  ${dim('Targets  ')} ${targets(config)}`,
  ]
  for (const warning of warnings) lines.push('', `${terminal.style('yellow', 'Warning:')} ${warning}`)
  if (newKey !== undefined) {
    lines.push(
      '',
      `Your admin key. Keep it: it is not shown again.`,
      '',
      `  ${terminal.style(['bold', 'green'], newKey)}`,
    )
  }
  if (isEmpty)
    lines.push('', 'Send a first event:', '', ...firstEvent(config, url, newKey, dim, command, terminal.command))
  return [...lines, ''].join('\n')
}

function firstEvent(
  config: Config,
  url: string,
  newKey: string | undefined,
  dim: (text: string) => string,
  command: (text: string) => string,
  sluice: string,
): string[] {
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
