import { type BlockList, isIP, isIPv6 } from 'node:net'
import { networkList } from '../wire/network.ts'

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

const specialV4 = networkList(notPublicV4)
const unicastV6 = networkList([globalV6])
const specialV6 = networkList(notPublicV6)

/** Decides which addresses a delivery may be sent to. Fixed once made. */
export class AddressPolicy {
  readonly allowHttp: boolean
  /** Whether any network beyond the public internet is allowed. */
  readonly hasNetworks: boolean
  readonly #allowed: BlockList

  /** Throws a RangeError that names the first invalid network. */
  constructor(rules: AddressRules) {
    this.allowHttp = rules.allowHttp ?? false
    this.hasNetworks = rules.allowNetworks.length > 0
    this.#allowed = networkList(rules.allowNetworks)
  }

  /** Whether a delivery may go to this address; false for a text that is not an IP address. */
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

const maxUrlLength = 4096
const maxNameLength = 253
const maxLabelLength = 63

/** Ports from 1024 up of services other than web servers; a webhook there is an attack or a mistake. */
const servicePorts = new Set([
  2049, 2375, 2376, 2379, 3306, 3389, 5432, 5672, 6379, 8500, 9092, 9200, 10250, 11211, 15672, 27017,
])

/** Endings of names that only mean something inside a private network. */
const privateEndings = ['.local', '.internal', '.home.arpa']

/**
 * All problems of an endpoint's URL, as sentences for its owner; none when deliveries may be tried. The addresses of a name
 * are checked when connecting.
 */
export function checkUrl(text: string, policy: AddressPolicy): string[] {
  const url = readUrl(text)
  return typeof url === 'string' ? [url] : urlProblems(url, policy)
}

/** The URL of an endpoint; a sentence when the text is none. */
export function readUrl(text: string): URL | string {
  if (text.length > maxUrlLength) return `The URL is longer than ${maxUrlLength} characters.`
  // URL silently drops tabs and line breaks, so they must be looked for in the text, not in what it became.
  if (hasControl(text)) return 'The URL contains control characters.'
  if (!/^https?:\/\//i.test(text)) return 'The URL does not begin with https://.'
  return URL.parse(text) ?? 'The URL cannot be read.'
}

/** As `checkUrl`, of a URL that was read. */
export function urlProblems(url: URL, policy: AddressPolicy): string[] {
  const host = hostOf(url)
  // At home means: on a network the operator allowed. Such a target may use plain http and any port.
  const atHome = isIP(host) === 0 ? isLocalhost(host) && permitsLoopback(policy) : policy.inAllowedNetwork(host)
  const hostProblems = isIP(host) === 0 ? nameProblems(host, policy) : addressProblems(host, policy)
  // A refused host is the whole problem: on an allowed network, http and any port are fine.
  const isPublic = !atHome && hostProblems.length === 0
  const problems: string[] = []
  if (url.protocol === 'http:' && !policy.allowHttp && isPublic) problems.push(noHttps)
  if (url.username !== '' || url.password !== '')
    problems.push('The URL contains a user name or password. Set the auth of the endpoint instead.')
  problems.push(...hostProblems)
  const judgedLater = isPrivateName(host) && policy.hasNetworks
  if (isPublic && !judgedLater && !isWebPort(portOf(url))) {
    problems.push(
      `Port ${portOf(url)} is not allowed: use 80, 443 or one from 1024 up that no other service is known by.`,
    )
  }
  if (url.port === '0') problems.push('Port 0 cannot be connected to.')
  return problems
}

/** The host to connect to: without the brackets of an IPv6 literal and without the dot that may end a name. */
export function hostOf(url: URL): string {
  const name = url.hostname
  if (name.startsWith('[')) return name.slice(1, -1)
  return name.endsWith('.') ? name.slice(0, -1) : name
}

/** The port to connect to. */
export function portOf(url: URL): number {
  return url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
}

/** Whether a port is one where a public web server may listen. */
export function isWebPort(port: number): boolean {
  return port === 80 || port === 443 || (port >= 1024 && !servicePorts.has(port))
}

/** Whether a name means this machine, without a question to DNS. */
export function isLocalhost(name: string): boolean {
  return name === 'localhost' || name.endsWith('.localhost')
}

function permitsLoopback(policy: AddressPolicy): boolean {
  return policy.inAllowedNetwork('127.0.0.1') || policy.inAllowedNetwork('::1')
}

/** Names that can only be in a private network. Without allowed networks they are refused before they are resolved. */
function isPrivateName(name: string): boolean {
  if (isIP(name) !== 0 || isLocalhost(name)) return false
  return !name.includes('.') || privateEndings.some((ending) => name.endsWith(ending))
}

const noHttps = 'The URL does not use https. The operator can permit http with allowHttp (SLUICE_ALLOW_HTTP).'

/** How the operator permits a network. Loopback has a setting of its own. */
function remedy(network: string): string {
  const local = network.startsWith('127.') || network === '::1' ? '--local on its own machine, or with ' : ''
  return `The operator can permit it with ${local}allowNetworks (such as SLUICE_ALLOW_NETWORKS=${network}).`
}

function addressProblems(address: string, policy: AddressPolicy): string[] {
  return policy.permits(address) ? [] : [`The address ${address} is not public. ${remedy(address)}`]
}

function nameProblems(name: string, policy: AddressPolicy): string[] {
  const labels = name.split('.')
  if (name.length > maxNameLength || labels.some((label) => label === '' || label.length > maxLabelLength)) {
    return ['The host name is not a valid one.']
  }
  const refused = isLocalhost(name) ? !permitsLoopback(policy) : isPrivateName(name) && !policy.hasNetworks
  return refused
    ? [`The host name ${name} is not public. ${remedy(isLocalhost(name) ? '127.0.0.1' : '10.0.0.0/8')}`]
    : []
}

/** A space within is no danger: it is sent as %20. */
function hasControl(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code < 0x20 || (code >= 0x7f && code <= 0xa0)) return true
  }
  return false
}
