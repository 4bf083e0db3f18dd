import { showSetting } from '../runtime/config.ts'
import { permittedNetworks } from '../runtime/networks.ts'
import { type Address, formatAddress } from '../runtime/setting-kinds.ts'
import type { Config } from '../runtime/settings.ts'
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
  const base = `http://${formatAddress(reachable(address))}/api/v1`
  const lines = [
    '',
    `${bold(`Sluice ${version}`)}${dim(' — webhook delivery that loses nothing and floods nobody')}`,
    '',
    // Nothing around the URL: scripts read it from this line, colours or not.
    `Listening on http://${formatAddress(address)}`,
    `  ${dim('API    ')} ${base}`,
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
  lines.push('', 'Send a first event:', '', ...firstEvent(base, newKey ?? '$SLUICE_API_KEY', config, dim, command), '')
  return lines.join('\n')
}

function firstEvent(
  base: string,
  key: string,
  config: Config,
  dim: (text: string) => string,
  command: (text: string) => string,
): string[] {
  const local = permittedNetworks(config).includes('127.0.0.0/8')
  const receiver = `node -e 'require("http").createServer((q,s)=>q.on("end",()=>s.end()).pipe(process.stdout)).listen(9000,"127.0.0.1")'`
  const url = local ? 'http://127.0.0.1:9000/' : 'https://example.com/webhook'
  const post = (path: string, body: unknown) =>
    `curl -s '${base}${path}' -H "authorization: Bearer ${key}" -H 'content-type: application/json' -d '${JSON.stringify(body)}'`
  return [
    ...(local ? [dim('# in another terminal, something to deliver to'), command(receiver), ''] : []),
    dim('# an application, its endpoint, and an event'),
    command(post('/app?get_if_exists=true', { name: 'Demo', uid: 'demo' })),
    command(post('/app/demo/endpoint', { uid: 'first', url })),
    command(post('/app/demo/msg', { eventType: 'video.trending', payload: { hello: 'world' } })),
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
