import { showSetting, urlVariable } from '../runtime/config.ts'
import { permittedNetworks } from '../runtime/networks.ts'
import { type Address, formatAddress } from '../runtime/setting-kinds.ts'
import { type Config, variableOf } from '../runtime/settings.ts'
import { defaultUrl } from './remote.ts'
import type { World } from './world.ts'

/**
 * What a person sees at the start: where everything is, and commands that send a first event as they stand. The key is
 * shown only when it was made just now; nobody can show it later.
 */
export function banner(
  { version, terminal }: World,
  config: Config,
  address: Address,
  newKey: string | undefined,
): string {
  const bold = (text: string) => terminal.style('bold', text)
  const dim = (text: string) => terminal.style('dim', text)
  const command = (text: string) => terminal.style('cyan', text)
  const url = `http://${formatAddress(reachable(address))}`
  const lines = [
    '',
    `${bold(`Sluice ${version}`)}${dim(' — webhook delivery that loses nothing and floods nobody')}`,
    '',
    // Nothing around the URL: scripts read it from this line, colours or not.
    `Listening on http://${formatAddress(address)}`,
    `  ${dim('API    ')} ${url}/api/v1, described at ${url}/docs`,
    `  ${dim('Store  ')} ${showSetting('store', config)}`,
    `  ${dim('Targets')} ${targets(config)}`,
  ]
  if (newKey !== undefined) {
    lines.push(
      '',
      `Your admin key. It is shown only now; keep it:`,
      '',
      `  ${terminal.style(['bold', 'green'], newKey)}`,
    )
  }
  lines.push('', 'Send a first event:', '', ...firstEvent(config, url, newKey, dim, command), '')
  return lines.join('\n')
}

function firstEvent(
  config: Config,
  url: string,
  newKey: string | undefined,
  dim: (text: string) => string,
  command: (text: string) => string,
): string[] {
  const local = permittedNetworks(config).includes('127.0.0.0/8')
  const exports = [
    ...(url === defaultUrl ? [] : [command(`export ${urlVariable}=${url}`)]),
    // Without a new key it is one that the caller has and nobody else knows.
    command(`export ${variableOf('apiKey')}=${newKey ?? 'sk_…'}`),
  ]
  const send = command(`npx sluice send demo video.trending '{"hello":"world"}'`)
  if (local) {
    return [
      dim('# in a second and a third terminal'),
      ...exports,
      '',
      dim('# in the second: receive, verify and print'),
      command('npx sluice listen --app demo'),
      '',
      dim('# in the third: send'),
      send,
    ]
  }
  return [
    dim('# in a second terminal: an application, its endpoint, and an event'),
    ...exports,
    command('npx sluice app create Demo --uid demo'),
    command('npx sluice endpoint create demo https://example.com/webhook'),
    send,
  ]
}

function targets(config: Config): string {
  const networks = permittedNetworks(config)
  const http = config.allowHttp ? 'public addresses, http allowed' : 'public addresses over https'
  if (networks.length === 0) return http
  const reason = config.allowNetworks === null ? 'this machine, because of --local' : 'as allowNetworks says'
  return `${http}, and ${networks.join(', ')} (${reason})`
}

/** Where a server that listens everywhere can be reached from here. */
function reachable({ host, port }: Address): Address {
  if (host === '0.0.0.0') return { host: '127.0.0.1', port }
  return host === '::' ? { host: '::1', port } : { host, port }
}
