import { BlockList, isIP, isIPv6 } from 'node:net'
import { readNetwork } from '../wire/network.ts'

/** Where deliveries may go besides the public internet, as an operator writes it. */
export interface AddressRules {
  /** Networks such as `127.0.0.0/8` or `::1/128`; a single address stands for itself. */
  readonly allowNetworks: readonly string[]
  /** Whether plain http may leave for public addresses. */
  readonly allowHttp?: boolean
}

/**
 * IPv4 that is not the public internet: the IANA special-purpose registry, plus Azure's WireServer (168.63.129.16), which
 * every classifier tried takes for an ordinary public address although it answers with a machine's credentials.
 */
const notPublicV4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.31.196.0/24',
  '192.52.193.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '192.175.48.0/24',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]

/**
 * IPv6 is judged the other way round: only global unicast can be public. That refuses, without naming them, loopback,
 * IPv4-compatible, -mapped and -translated forms, NAT64, unique local, link and site local, multicast and all space not
 * yet given out. Inside 2000::/3 lie a few more that are not the internet or carry an IPv4 address within.
 */
const globalV6 = '2000::/3'
const notPublicV6 = ['2001::/23', '2001:db8::/32', '2002::/16', '2620:4f:8000::/48', '3fff::/20']

const specialV4 = blockList(notPublicV4)
const unicastV6 = blockList([globalV6])
const specialV6 = blockList(notPublicV6)

/** Decides which addresses a delivery may be sent to. Fixed once made. */
export class AddressPolicy {
  readonly allowHttp: boolean
  /** Whether any network beyond the public internet is allowed. */
  readonly hasNetworks: boolean
  readonly #allowed: BlockList

  /** Throws a RangeError naming the first network that is none. */
  constructor(rules: AddressRules) {
    this.allowHttp = rules.allowHttp ?? false
    this.hasNetworks = rules.allowNetworks.length > 0
    this.#allowed = blockList(rules.allowNetworks)
  }

  /** Whether a delivery may go to this address; anything that is not an IP address may not be gone to. */
  permits(address: string): boolean {
    return this.inAllowedNetwork(address) || isPublic(address)
  }

  /** Whether the operator allowed the network this address lies in. */
  inAllowedNetwork(address: string): boolean {
    return isIP(address) !== 0 && this.#allowed.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
  }
}

/** Whether an address is reachable over the public internet. About 5 µs: asked once per connection, not per attempt. */
export function isPublic(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !specialV4.check(address, 'ipv4')
    case 6:
      return unicastV6.check(address, 'ipv6') && !specialV6.check(address, 'ipv6')
    default:
      return false
  }
}

function blockList(networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const text of networks) {
    const network = readNetwork(text)
    if (network === undefined) throw new RangeError(`'${text}' is not a network such as 10.1.0.0/16 or ::1/128`)
    list.addSubnet(network.address, network.bits, network.family)
  }
  return list
}
