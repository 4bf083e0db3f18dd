import { isIP } from 'node:net'
import type { EgressProxy } from '../wire/egress-proxy.ts'
import { networkList, readNetwork } from '../wire/network.ts'

/** Which deliveries leave through which proxy. */
export interface EgressRules {
  readonly proxies: readonly EgressProxy[]
  /** Hosts that are reached directly: names, `.suffix` for a name and all below it, addresses and networks, `*` for all. */
  readonly noProxy: readonly string[]
  /** Where a name is resolved: here, so that every address is checked before the proxy is asked for it, or by the proxy. */
  readonly resolvedBy: 'sluice' | 'proxy'
}

/** Chooses the proxy of each target. */
export class Egress {
  readonly resolvedBy: EgressRules['resolvedBy']
  readonly #proxies: ReadonlyMap<string | null, EgressProxy>
  readonly #direct: (host: string) => boolean

  constructor({ proxies, noProxy, resolvedBy }: EgressRules = { proxies: [], noProxy: [], resolvedBy: 'sluice' }) {
    this.resolvedBy = resolvedBy
    this.#proxies = new Map(proxies.map((proxy) => [proxy.name, proxy]))
    this.#direct = matcher(noProxy)
  }

  /**
   * The proxy of a host: the one that the endpoint names, else that of its region, else that of all others; null for none. An
   * error text when the endpoint names a proxy that does not exist. `direct` names no proxy.
   */
  proxyOf(host: string, chosen: string | null = null, region: string | null = null): EgressProxy | null | string {
    if (chosen === 'direct') return null
    const named = chosen === null ? undefined : this.#proxies.get(chosen)
    if (chosen !== null && named === undefined) {
      return `The endpoint names the egress proxy ${chosen}, and SLUICE_EGRESS_PROXY has none of that name.`
    }
    if (this.#direct(host)) return null
    return named ?? (region === null ? undefined : this.#proxies.get(region)) ?? this.#proxies.get(null) ?? null
  }
}

/** Whether a host is one of those that NO_PROXY lists, as curl reads it. */
function matcher(list: readonly string[]): (host: string) => boolean {
  const networks = networkList(list.filter((entry) => readNetwork(entry) !== undefined))
  const names = list.map((entry) => entry.toLowerCase().replace(/^\*?\./, ''))
  return (host) => {
    if (names.includes('*')) return true
    const version = isIP(host)
    if (version !== 0) return networks.check(host, version === 4 ? 'ipv4' : 'ipv6')
    return names.some((name) => host === name || host.endsWith(`.${name}`))
  }
}
