/** A proxy through which deliveries leave. */
export interface EgressProxy {
  /** The name by which regions and endpoints choose it; null for the proxy of all others. */
  readonly name: string | null
  readonly kind: 'http' | 'https' | 'socks5'
  readonly host: string
  readonly port: number
  /** Empty without credentials. */
  readonly username: string
  readonly password: string
}

const kinds = { 'http:': 'http', 'https:': 'https', 'socks5:': 'socks5' } as const
const defaultPorts = { http: 3128, https: 443, socks5: 1080 } as const

/** Reads `[NAME=]URL`; undefined when the text is none. */
export function readEgressProxy(text: string): EgressProxy | undefined {
  const [, name, address = ''] = /^(?:([a-zA-Z0-9\-_.]{1,128})=)?(.*)$/s.exec(text) ?? []
  const url = URL.parse(address)
  const kind = kinds[url?.protocol as keyof typeof kinds]
  if (url === null || kind === undefined || url.hostname === '' || !/^\/?$/.test(url.pathname)) return undefined
  if (url.search !== '' || url.hash !== '') return undefined
  const port = url.port === '' ? defaultPorts[kind] : Number(url.port)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const [username, password] = [url.username, url.password].map(decoded)
  if (username === undefined || password === undefined || port === 0) return undefined
  // RFC 1929 counts both in a byte.
  if (kind === 'socks5' && (Buffer.byteLength(username) > 255 || Buffer.byteLength(password) > 255)) return undefined
  return { name: name ?? null, kind, host, port, username, password }
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/** The proxy without its credentials, as a person may see it. */
export function shownProxy({ name, kind, host, port }: EgressProxy): string {
  return `${name === null ? '' : `${name}=`}${kind}://${host.includes(':') ? `[${host}]` : host}:${port}`
}
