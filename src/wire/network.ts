import { BlockList, isIP } from 'node:net'

/** A range of addresses. */
interface Network {
  readonly address: string
  readonly bits: number
  readonly family: 'ipv4' | 'ipv6'
}

/** Reads a network: an address, a slash and a prefix length, or an address alone. Undefined when the text is none. */
export function readNetwork(text: string): Network | undefined {
  const slash = text.indexOf('/')
  const address = slash < 0 ? text : text.slice(0, slash)
  const version = isIP(address)
  // A zone (fe80::1%eth0) names an interface of one machine, which no policy should depend on.
  if (version === 0 || address.includes('%')) return undefined
  const width = version === 4 ? 32 : 128
  const bits = slash < 0 ? String(width) : text.slice(slash + 1)
  if (!/^\d{1,3}$/.test(bits) || Number(bits) > width) return undefined
  return { address, bits: Number(bits), family: version === 4 ? 'ipv4' : 'ipv6' }
}

/** The addresses of several networks. Throws a RangeError that names the first invalid network. */
export function networkList(networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const text of networks) {
    const network = readNetwork(text)
    if (network === undefined) throw new RangeError(`'${text}' is not a network such as 10.1.0.0/16 or ::1/128`)
    list.addSubnet(network.address, network.bits, network.family)
  }
  return list
}

/** The network that an address counts for: an IPv6 client has a whole /64 of addresses. */
export function networkOf(ip: string): string {
  if (!ip.includes(':') || ip.startsWith('::ffff:')) return ip
  const [head = '', tail] = ip.split('::')
  const groups = head.split(':')
  if (tail !== undefined) while (groups.length < 4) groups.push('0')
  return groups.slice(0, 4).join(':')
}

/**
 * The modules of Node for HTTP and TLS. An `import` of them reads every export: it loads Node's own client of `fetch` and
 * decodes all root certificates, 60 ms of each start. Asked for as here, they load these only when they are used.
 */
export const { createServer, STATUS_CODES } = process.getBuiltinModule('node:http')
export const { connect: connectTls, createSecureContext, getCACertificates } = process.getBuiltinModule('node:tls')
