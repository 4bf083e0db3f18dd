import { isIP } from 'node:net'
import type { AddressPolicy } from './guard.ts'

const maxUrlLength = 2048
const maxNameLength = 253
const maxLabelLength = 63

/** Ports from 1024 up on which something other than a web server is at home; a webhook there is an attack or a mistake. */
const servicePorts = new Set([
  2049, 2375, 2376, 2379, 3306, 3389, 5432, 5672, 6379, 8500, 9092, 9200, 10250, 11211, 15672, 27017,
])

/** Endings of names that only mean something inside a private network. */
const privateEndings = ['.local', '.internal', '.home.arpa']

/**
 * Everything that is wrong with an endpoint's URL, as sentences for its owner; empty when deliveries may be tried. What
 * can only be known at the moment of connecting (the addresses behind a name) is judged there.
 */
export function checkUrl(text: string, policy: AddressPolicy): string[] {
  if (text.length > maxUrlLength) return [`The URL is longer than ${maxUrlLength} characters.`]
  // URL silently drops tabs and line breaks, so they must be looked for in the text, not in what it became.
  if (hasControlOrSpace(text)) return ['The URL contains spaces or control characters.']
  if (!/^https?:\/\//i.test(text)) return ['The URL does not begin with https://.']
  const url = URL.parse(text)
  if (url === null) return ['The URL cannot be read.']

  const host = hostOf(url)
  // At home means: on a network the operator allowed. Such a target may use plain http and any port.
  const atHome = isIP(host) === 0 ? isLocalhost(host) && permitsLoopback(policy) : policy.inAllowedNetwork(host)
  const problems: string[] = []
  if (url.protocol === 'http:' && !policy.allowHttp && !atHome) problems.push('The URL does not use https.')
  if (url.username !== '' || url.password !== '') problems.push('The URL contains a user name or password.')
  if (text.includes('#')) problems.push('The URL contains a fragment.')
  problems.push(...(isIP(host) === 0 ? nameProblems(host, policy) : addressProblems(host, policy)))
  const judgedLater = isPrivateName(host) && policy.hasNetworks
  if (!atHome && !judgedLater && !isWebPort(portOf(url))) {
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

/** Whether a name stands for this very machine, whatever a DNS server says. */
export function isLocalhost(name: string): boolean {
  return name === 'localhost' || name.endsWith('.localhost')
}

function permitsLoopback(policy: AddressPolicy): boolean {
  return policy.inAllowedNetwork('127.0.0.1') || policy.inAllowedNetwork('::1')
}

/** Names that can only lead into a private network. With none allowed they are refused before anything is resolved. */
function isPrivateName(name: string): boolean {
  if (isIP(name) !== 0 || isLocalhost(name)) return false
  return !name.includes('.') || privateEndings.some((ending) => name.endsWith(ending))
}

function addressProblems(address: string, policy: AddressPolicy): string[] {
  return policy.permits(address) ? [] : [`The address ${address} is not a public one.`]
}

function nameProblems(name: string, policy: AddressPolicy): string[] {
  const labels = name.split('.')
  if (name.length > maxNameLength || labels.some((label) => label === '' || label.length > maxLabelLength)) {
    return ['The host name is not a valid one.']
  }
  const refused = isLocalhost(name) ? !permitsLoopback(policy) : isPrivateName(name) && !policy.hasNetworks
  return refused ? [`The host name ${name} is not a public one.`] : []
}

function hasControlOrSpace(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code <= 0x20 || (code >= 0x7f && code <= 0xa0)) return true
  }
  return false
}
