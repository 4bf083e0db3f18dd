import { BlockList, isIP } from 'node:net'
import type { Config } from './settings.ts'

const loopback = ['127.0.0.0/8', '::1/128'] as const

/** Whether a listening host can be reached from this machine only. */
export function isLoopback(host: string): boolean {
  const family = isIP(host)
  if (family === 0) return host === 'localhost'
  const list = new BlockList()
  list.addSubnet('127.0.0.0', 8, 'ipv4')
  list.addAddress('::1', 'ipv6')
  return list.check(host, family === 4 ? 'ipv4' : 'ipv6')
}

/**
 * The private networks that deliveries may go to: exactly `allowNetworks` when it is set. Otherwise none, except loopback
 * for a server with `local` that listens on loopback only.
 */
export function permittedNetworks(config: Pick<Config, 'allowNetworks' | 'local' | 'listen'>): readonly string[] {
  if (config.allowNetworks !== null) return config.allowNetworks
  return config.local && isLoopback(config.listen.host) ? loopback : []
}
