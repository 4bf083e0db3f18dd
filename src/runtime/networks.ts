import { BlockList, isIP } from 'node:net'
import type { Config } from './settings.ts'

const loopback = ['127.0.0.0/8', '::1/128'] as const

/** Whether a host to listen on can be reached from this machine only. */
export function isLoopback(host: string): boolean {
  const family = isIP(host)
  if (family === 0) return host === 'localhost'
  const list = new BlockList()
  list.addSubnet('127.0.0.0', 8, 'ipv4')
  list.addAddress('::1', 'ipv6')
  return list.check(host, family === 4 ? 'ipv4' : 'ipv6')
}

/**
 * The private networks deliveries may go to. Said outright, exactly those; otherwise none, except that a server started
 * with `local` which only this machine can reach may deliver to this machine.
 */
export function permittedNetworks(config: Pick<Config, 'allowNetworks' | 'local' | 'listen'>): readonly string[] {
  if (config.allowNetworks !== null) return config.allowNetworks
  return config.local && isLoopback(config.listen.host) ? loopback : []
}
