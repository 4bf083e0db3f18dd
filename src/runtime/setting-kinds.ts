import { isIP } from 'node:net'
import { mostRegions } from '../features/regions/rules.ts'
import { type EgressProxy, readEgressProxy, shownProxy } from '../wire/egress-proxy.ts'
import { readNetwork } from '../wire/network.ts'
import { readPostgresUrl, WrongPostgresUrl } from '../wire/postgres-address.ts'
import { type EncryptionKey, readEncryptionKeys } from './encryption-keys.ts'

/**
 * Reads and shows one kind of setting. `parse` takes text from a flag or a variable, or any JSON value from the file, and
 * throws `WrongValue` with the expected form.
 */
export interface SettingKind<T> {
  parse(raw: unknown): T
  show(value: T): string
  /** The placeholder for the value in help, such as `DURATION`; undefined for a switch. */
  readonly placeholder: string | undefined
}

const regionsText = `1 to ${mostRegions} regions such as eu,us`

/** A value that a setting cannot have. The message completes the sentence "must be …". */
export class WrongValue extends Error {}

type StoreSetting =
  | { readonly kind: 'sqlite'; readonly path: string }
  | { readonly kind: 'postgres'; readonly url: string }

export interface Address {
  readonly host: string
  readonly port: number
}

/** `sqlite:PATH` or `postgres://…`. A password in the URL is masked when shown. */
export const store: SettingKind<StoreSetting> = {
  placeholder: 'STORE',
  parse(raw) {
    const expected = 'sqlite:PATH or postgres://USER@HOST/DATABASE'
    if (typeof raw !== 'string') throw new WrongValue(expected)
    if (raw.startsWith('sqlite:') && raw.length > 'sqlite:'.length) return { kind: 'sqlite', path: raw.slice(7) }
    if (!isPostgres(raw)) throw new WrongValue(expected)
    return { kind: 'postgres', url: readablePostgres(raw) }
  },
  show: (value) => (value.kind === 'sqlite' ? `sqlite:${value.path}` : maskUrl(value.url)),
}

const isPostgres = (text: string) => /^postgres(ql)?:\/\//.test(text)

function readablePostgres(url: string): string {
  try {
    readPostgresUrl(url)
    return url
  } catch (error) {
    if (error instanceof WrongPostgresUrl) throw new WrongValue(error.message)
    throw error
  }
}

/** `postgres://…`, its password masked when shown. */
export const postgresServer: SettingKind<string> = {
  placeholder: 'URL',
  parse(raw) {
    if (typeof raw === 'string' && isPostgres(raw)) return readablePostgres(raw)
    throw new WrongValue('postgres://USER@HOST/DATABASE')
  },
  show: maskUrl,
}

/** `HOST:PORT`, with brackets around an IPv6 address; port 0 is any free port. */
export const address: SettingKind<Address> = {
  placeholder: 'HOST:PORT',
  parse(raw) {
    const match = typeof raw === 'string' && /^(?:\[([^\]]+)\]|([^:[\]\s/]+)):(\d{1,5})$/.exec(raw)
    const port = match ? Number(match[3]) : Number.NaN
    const ipv6 = match ? match[1] : undefined
    if (!match || !(port <= 65_535) || (ipv6 !== undefined && isIP(ipv6) !== 6)) {
      throw new WrongValue('HOST:PORT with a port from 0 to 65535, such as 127.0.0.1:8484 or [::1]:8484')
    }
    return { host: ipv6 ?? (match[2] as string), port }
  },
  show: (value) => formatAddress(value),
}

/** A list of networks in CIDR form, separated by commas. */
export const networks: SettingKind<readonly string[]> = listOf(
  'CIDR,…',
  'networks such as 127.0.0.0/8,10.1.0.0/16,::1/128',
  (part) => readNetwork(part) !== undefined,
)

/** A list of regions, separated by commas: one at least. */
export const regions: SettingKind<readonly string[]> = {
  ...regionList(),
  parse(raw) {
    const list = [...new Set(regionList().parse(raw))]
    if (list.length === 0 || list.length > mostRegions) throw new WrongValue(regionsText)
    return list
  },
}

/** A list of web origins, separated by commas. `*.` before a host stands for all its subdomains. */
export const origins: SettingKind<readonly string[]> = listOf(
  'ORIGIN,…',
  'origins such as https://app.example.com,https://*.example.com',
  (part) => /^https?:\/\/(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)*(:\d{1,5})?$/i.test(part),
)

/** Proxies by `[NAME=]URL`, separated by commas. Credentials are masked when shown. */
export const egressProxies: SettingKind<readonly EgressProxy[]> = {
  placeholder: '[NAME=]URL,…',
  parse(raw) {
    const texts = Array.isArray(raw) ? raw : typeof raw === 'string' ? raw.split(',') : [raw]
    const given = texts.filter((text) => typeof text !== 'string' || text.trim() !== '')
    const proxies = given.flatMap((text) => (typeof text === 'string' && readEgressProxy(text.trim())) || [])
    // A wrong text is not repeated: it may contain a password.
    if (proxies.length < given.length) {
      throw new WrongValue('proxies such as http://user:password@proxy.internal:3128 or eu=socks5://10.0.0.7:1080')
    }
    const names = proxies.map(({ name }) => name)
    const twice = names.find((name, i) => names.indexOf(name) < i)
    if (twice !== undefined) throw new WrongValue(`proxies with one ${twice ?? 'URL without a name'} only`)
    if (names.includes('direct')) throw new WrongValue('proxies with other names than direct, which means none')
    return proxies
  },
  show: (value) => (value.length === 0 ? '(none)' : value.map(shownProxy).join(',')),
}

/** Hosts, separated by commas, as in NO_PROXY. */
export const hosts: SettingKind<readonly string[]> = listOf(
  'HOST,…',
  'hosts such as internal.example.com,.corp,10.0.0.0/8',
  (part) => part === '*' || readNetwork(part) !== undefined || /^(\*?\.)?[a-z0-9-]+(\.[a-z0-9-]+)*$/i.test(part),
)

function regionList(): SettingKind<readonly string[]> {
  return listOf('REGION,…', regionsText, (part) => /^[a-zA-Z0-9\-_.]{1,128}$/.test(part))
}

function listOf(
  placeholder: string,
  examples: string,
  isRight: (part: string) => boolean,
): SettingKind<readonly string[]> {
  return {
    placeholder,
    parse(raw) {
      const parts = Array.isArray(raw) ? raw : typeof raw === 'string' ? raw.split(',') : [raw]
      const list = parts.map((part) => (typeof part === 'string' ? part.trim() : part)).filter((part) => part !== '')
      const wrong = list.filter((part) => typeof part !== 'string' || !isRight(part))
      if (wrong.length > 0) {
        throw new WrongValue(`a list of ${examples} (wrong: ${wrong.map(String).join(', ')})`)
      }
      return list as string[]
    },
    show: (value) => (value.length === 0 ? '(none)' : value.join(',')),
  }
}

/** A duration such as `500ms`, `10s`, `2m`, `1h` or `3d`, kept in milliseconds. A bare number is milliseconds. */
export function duration(minMs: number, maxMs: number): SettingKind<number> {
  return {
    placeholder: 'DURATION',
    parse: (raw) =>
      measure(raw, { '': 1, ...durationUnits }, minMs, maxMs, 'a duration such as 500ms, 10s or 2m', showDuration),
    show: showDuration,
  }
}

/** A size such as `512KiB` or `1MiB`, kept in bytes. A bare number is bytes. */
export function size(minBytes: number, maxBytes: number): SettingKind<number> {
  return {
    placeholder: 'SIZE',
    parse: (raw) => measure(raw, { '': 1, ...sizeUnits }, minBytes, maxBytes, 'a size such as 64KiB or 1MiB', showSize),
    show: showSize,
  }
}

/** A whole number. */
export function count(min: number, max: number): SettingKind<number> {
  return {
    placeholder: 'NUMBER',
    parse: (raw) => measure(raw, { '': 1 }, min, max, 'a whole number', String),
    show: String,
  }
}

/** A number of processes, or `auto` for one per core. */
export const processCount: SettingKind<number | 'auto'> = {
  placeholder: 'NUMBER|auto',
  parse(raw) {
    if (raw === 'auto') return raw
    return measure(raw, { '': 1 }, 1, 256, 'auto or a whole number', String)
  },
  show: String,
}

/** One of a few words. */
export function choice<T extends string>(words: readonly T[]): SettingKind<T> {
  return {
    placeholder: words.join('|'),
    parse(raw) {
      const found = words.find((word) => word === raw)
      if (found === undefined) throw new WrongValue(`one of ${words.join(', ')}`)
      return found
    },
    show: (value) => value,
  }
}

/** On or off. */
export const toggle: SettingKind<boolean> = {
  placeholder: undefined,
  parse(raw) {
    if (raw === true || raw === 'true' || raw === '1') return true
    if (raw === false || raw === 'false' || raw === '0') return false
    throw new WrongValue('true or false')
  },
  show: String,
}

/** The path of a file. */
export const filePath: SettingKind<string> = {
  placeholder: 'FILE',
  parse(raw) {
    if (typeof raw !== 'string' || raw.trim() === '' || raw.includes('\0')) throw new WrongValue('the path of a file')
    return raw
  },
  show: (value) => value,
}

/** A command line for the shell of the system. */
export const commandLine: SettingKind<string> = {
  placeholder: 'COMMAND',
  parse(raw) {
    if (typeof raw !== 'string' || raw.trim() === '' || raw.includes('\0')) throw new WrongValue('a command line')
    return raw
  },
  show: (value) => value,
}

/** Characters in these orders, forwards or backwards, are tried first. */
const orders = 'abcdefghijklmnopqrstuvwxyz 01234567890 qwertyuiop qwertzuiop asdfghjkl zxcvbnm'
const usualWords =
  /password|passwort|passw0rd|change-?me|secret|admin|sluice|webhook|welcome|letmein|default|example|token|key/g
const repeatedLength = 4
const leastSurprises = 8

/**
 * Whether a key is one that others would try. Words count for nothing, and neither does a character that follows from the
 * one before it or ends a sequence that was there before; 8 others are asked for. Of a random key in hexadecimal digits
 * with 32 characters, 24 are left as a rule.
 */
function isGuessable(key: string): boolean {
  const text = key.toLowerCase().replaceAll(usualWords, '\n')
  const surprises = [...text].filter((character, i) => {
    const before = text.charAt(i - 1)
    const follows = orders.includes(before + character) || orders.includes(character + before)
    const end = text.slice(Math.max(0, i - repeatedLength + 1), i + 1)
    const isRepeated = end.length === repeatedLength && text.indexOf(end) + repeatedLength - 1 < i
    return character !== '\n' && character !== before && !(before !== '' && follows) && !isRepeated
  })
  return surprises.length < leastSurprises || new Set(surprises).size < leastSurprises - 2
}

/** A secret for a header: visible ASCII without spaces, too long to guess. */
export const token: SettingKind<string> = {
  placeholder: 'KEY',
  parse(raw) {
    if (typeof raw !== 'string' || !/^[\x21-\x7e]{16,256}$/.test(raw) || isGuessable(raw)) {
      throw new WrongValue(
        '16 to 256 visible ASCII characters without spaces, and no words, rows of keys or repetitions that others would try (make one with: openssl rand -hex 32)',
      )
    }
    return raw
  },
  show: (value) => value,
}

/** Encryption keys, the sealing key first; see `readEncryptionKeys`. */
export const encryptionKeys: SettingKind<readonly EncryptionKey[]> = {
  placeholder: 'KEYS',
  parse(raw) {
    const keys = typeof raw === 'string' ? readEncryptionKeys(raw) : undefined
    if (keys === undefined) throw new WrongValue('32 bytes in base64, or several such keys as id:base64,id:base64')
    return keys
  },
  show: (value) => value.map(({ id }) => `${id}:****`).join(','),
}

/** A URL with http:// or https:// and without a query. */
export const webAddress: SettingKind<string> = {
  placeholder: 'URL',
  parse(raw) {
    const url = typeof raw === 'string' && URL.canParse(raw) ? new URL(raw) : undefined
    if (url === undefined || !/^https?:$/.test(url.protocol) || url.search !== '' || url.hash !== '') {
      throw new WrongValue('an address such as https://hooks.example.com')
    }
    return url.href.replace(/\/+$/, '')
  },
  show: (value) => maskUrl(value),
}

/** `HOST:PORT`, bracketing an IPv6 host. */
export function formatAddress({ host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

const durationUnits = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const sizeUnits = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 }

function measure(
  raw: unknown,
  units: Readonly<Record<string, number>>,
  min: number,
  max: number,
  what: string,
  show: (value: number) => string,
): number {
  const expected = `${what} from ${show(min)} to ${show(max)}`
  const match = /^(\d{1,15})([A-Za-z]*)$/.exec(typeof raw === 'number' || typeof raw === 'string' ? String(raw) : '')
  const unit = match ? units[match[2] as string] : undefined
  const value = match && unit !== undefined ? Number(match[1]) * unit : Number.NaN
  if (!(value >= min && value <= max)) throw new WrongValue(expected)
  return value
}

function showDuration(ms: number): string {
  return showIn(durationUnits, ms)
}

function showSize(bytes: number): string {
  return showIn(sizeUnits, bytes)
}

/** Formats the value in the largest unit that divides it, so that the text can be used as input. */
function showIn(units: Readonly<Record<string, number>>, value: number): string {
  const fitting = Object.entries(units).filter(([, size]) => value % size === 0)
  const [unit, size] = (value === 0 ? fitting[0] : fitting.at(-1)) as [string, number]
  return `${value / size}${unit}`
}

/** Masks the user, the password and secret parameters of a URL, also when the text is not a valid URL. */
export function maskUrl(text: string): string {
  return text
    .replace(/\/\/.*@|[^/"]*@/, (found) => (found.startsWith('//') ? '//****@' : '****@'))
    .replace(/([?&][^=&#]*(?:password|secret|key|token|user)[^=&#]*=)[^&#]*/gi, '$1****')
}
