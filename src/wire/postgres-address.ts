/** How Postgres servers are reached, as one URL says it in the form of libpq. */
export interface PostgresAddress {
  /** One server, or several of which one takes writes. */
  readonly hosts: readonly PostgresHost[]
  readonly user: string | undefined
  readonly password: string | undefined
  readonly database: string | undefined
  /** Undefined where the URL does not say it. */
  readonly sslMode: SslMode | undefined
  /** Files in PEM form. `system` stands for the authorities that come with the program. */
  readonly rootCertificate: string | undefined
  readonly certificate: string | undefined
  readonly key: string | undefined
  readonly keyPassword: string | undefined
  /** Further parameters, which are the driver's. */
  readonly others: Readonly<Record<string, string>>
}

/** A missing host or port is left to the driver, which has defaults. */
export interface PostgresHost {
  readonly host: string | undefined
  readonly port: number | undefined
}

const sslModes = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
export type SslMode = (typeof sslModes)[number]

/** A URL that leads to no Postgres. The message completes the sentence "must be …". */
export class WrongPostgresUrl extends Error {
  override readonly name = 'WrongPostgresUrl'
}

const form = /^postgres(?:ql)?:\/\/(?:([^/?#]*)@)?([^/?#@]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/
/** Sluice writes, so it needs the server that takes writes, whatever the URL of other programs says. */
const writing = ['read-write', 'primary', 'any']
/** Parameters whose misspelling would go unnoticed, and weaken the connection. */
const exact = /^(ssl|target)/
const known = ['sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'ssl', 'sslnegotiation', 'target_session_attrs']
/** The driver's own words, from before it had modes. */
const oldWords: Readonly<Record<string, SslMode>> = {
  ...{ true: 'verify-full', '1': 'verify-full' },
  ...{ false: 'disable', '0': 'disable', 'no-verify': 'require' },
}

/** Reads `postgres://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?…`. Throws `WrongPostgresUrl`. */
export function readPostgresUrl(text: string): PostgresAddress {
  const match = form.exec(text)
  if (match === null) throw new WrongPostgresUrl('postgres://USER@HOST/DATABASE')
  const [, login = '', hosts = '', database = '', query = ''] = match
  const parameters = new Map(new URLSearchParams(query))
  const take = (name: string) => {
    const value = parameters.get(name)
    parameters.delete(name)
    return value === '' ? undefined : value
  }
  const target = take('target_session_attrs')
  if (target !== undefined && !writing.includes(target))
    throw new WrongPostgresUrl('a Postgres URL whose target_session_attrs is read-write')
  const [user, password] = login.split(/:(.*)/s)
  const [rootCertificate, certificate, key] = [take('sslrootcert'), take('sslcert'), take('sslkey')]
  const isAskedFor = [rootCertificate, certificate, key].some(Boolean) || parameters.get('sslnegotiation') === 'direct'
  const mode = take('sslmode') ?? take('ssl') ?? (isAskedFor ? 'verify-full' : undefined)
  const sslMode = mode === undefined ? undefined : sslModeOf(mode, rootCertificate)
  parameters.delete('ssl')
  const address = {
    hosts: hostsOf(hosts, take('host'), take('port')),
    user: take('user') ?? decoded(user),
    password: take('password') ?? decoded(password),
    database: decoded(database),
    ...{ sslMode, rootCertificate, certificate, key, keyPassword: take('sslpassword') },
  }
  const misspelt = [...parameters.keys()].find((name) => exact.test(name) && !known.includes(name))
  if (misspelt !== undefined) throw new WrongPostgresUrl(`a Postgres URL without the unknown parameter ${misspelt}`)
  return { ...address, others: Object.fromEntries(parameters) }
}

function sslModeOf(word: string, rootCertificate: string | undefined): SslMode {
  const mode = sslModes.find((each) => each === word) ?? oldWords[word]
  if (mode === undefined) throw new WrongPostgresUrl(`a Postgres URL whose sslmode is one of ${sslModes.join(', ')}`)
  // Anyone can have a certificate of a public authority: without the name it says nothing.
  if (mode === 'verify-ca' && (rootCertificate === undefined || rootCertificate === 'system'))
    throw new WrongPostgresUrl('a Postgres URL with sslrootcert for its sslmode=verify-ca, or with sslmode=verify-full')
  // As libpq has it: an authority that is named is asked for.
  return mode === 'require' && rootCertificate !== undefined
    ? rootCertificate === 'system'
      ? 'verify-full'
      : 'verify-ca'
    : mode
}

/** Hosts in the place of a URL, or as the parameters that stand for it. */
function hostsOf(place: string, hosts: string | undefined, ports: string | undefined): PostgresHost[] {
  const named =
    hosts === undefined ? place.split(',').map(hostOf) : hosts.split(',').map((host) => ({ host, port: undefined }))
  if (named.length > 1 && named.some(({ host }) => host === undefined))
    throw new WrongPostgresUrl('a Postgres URL with a name for each of its hosts')
  const numbers = ports?.split(',').map(portOf) ?? []
  if (numbers.length > 1 && numbers.length !== named.length)
    throw new WrongPostgresUrl('a Postgres URL with one port, or as many as hosts')
  return named.map(({ host, port }, i) => ({ host, port: port ?? numbers[i] ?? numbers[0] }))
}

function hostOf(text: string): PostgresHost {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]*))(?::(\d*))?$/.exec(text)
  if (match === null)
    throw new WrongPostgresUrl('postgres://USER@HOST:PORT/DATABASE, or with several hosts HOST:PORT,HOST:PORT')
  const [, bracketed, plain, port] = match
  return { host: bracketed ?? decoded(plain), port: port ? portOf(port) : undefined }
}

function portOf(text: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) === 0 || Number(text) > 65_535)
    throw new WrongPostgresUrl('a Postgres URL with ports from 1 to 65535')
  return Number(text)
}

function decoded(text: string | undefined): string | undefined {
  if (text === undefined || text === '') return undefined
  try {
    return decodeURIComponent(text)
  } catch {
    // The driver, too, takes a lone percent sign as it is.
    return text
  }
}
