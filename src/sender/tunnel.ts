import { isIP, isIPv6, type Socket } from 'node:net'
import type { OutcomeCode } from '../domain/outcome.ts'
import { type EgressProxy, shownProxy } from '../wire/egress-proxy.ts'
import { ConnectFailure } from './classify.ts'

/** A host and a port to which a proxy makes a connection. */
interface Destination {
  /** A name, where the proxy resolves it, or an address. */
  readonly host: string
  readonly port: number
}

/** The longest answer of a proxy to CONNECT, with the page that it may send. */
const answerBytes = 16 * 1024

/** A conversation with a proxy: reads its bytes, and answers what to write, or that the tunnel stands. */
type Handshake = Generator<Buffer | undefined, void, Buffer>

/**
 * Asks a proxy, over a connection to it, for a tunnel. `done` is called once, never before this returns; after it the socket
 * carries the bytes of the destination. The caller watches for errors of the socket and for the deadline.
 */
export function openTunnel(
  socket: Socket,
  proxy: EgressProxy,
  to: Destination,
  done: (failure: ConnectFailure | null) => void,
): void {
  const handshake: Handshake = proxy.kind === 'socks5' ? socksHandshake(proxy, to) : connectHandshake(proxy, to)
  const end = (failure: ConnectFailure | null): void => {
    socket.off('data', read).off('end', hungUp)
    socket.pause()
    done(failure)
  }
  const step = (bytes: Buffer): void => {
    try {
      const { done: stands, value } = handshake.next(bytes)
      if (stands) end(null)
      else if (value !== undefined) socket.write(value)
    } catch (error) {
      if (!(error instanceof ConnectFailure)) throw error
      end(error)
    }
  }
  const read = (bytes: Buffer): void => step(bytes)
  const hungUp = (): void => end(refusal(proxy, 'it closed the connection'))
  socket.on('data', read).on('end', hungUp)
  step(Buffer.alloc(0))
}

/** A failure of the proxy itself, or by its rules: the receiver was not asked. */
export function refusal(proxy: EgressProxy, trouble: string, cause?: unknown): ConnectFailure {
  return new ConnectFailure(
    'proxy_failed',
    `The egress proxy ${shownProxy(proxy)} made no connection: ${trouble}.`,
    cause,
  )
}

/** A failure of the receiver, as the proxy reports it. */
function reported(proxy: EgressProxy, code: OutcomeCode, trouble: string): ConnectFailure {
  return new ConnectFailure(code, `The egress proxy ${shownProxy(proxy)} says: ${trouble}.`)
}

/** CONNECT of HTTP/1.1. */
function* connectHandshake(proxy: EgressProxy, { host, port }: Destination): Handshake {
  const authority = `${isIPv6(host) ? `[${host}]` : host}:${port}`
  const login = Buffer.from(`${proxy.username}:${proxy.password}`).toString('base64')
  const credentials = proxy.username === '' ? '' : `Proxy-Authorization: Basic ${login}\r\n`
  let answer = yield Buffer.from(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${credentials}\r\n`)
  while (!answer.includes('\r\n\r\n')) {
    if (answer.length > answerBytes) throw refusal(proxy, 'its answer is longer than 16 KiB')
    answer = Buffer.concat([answer, yield undefined])
  }
  const end = answer.indexOf('\r\n\r\n') + 4
  const [, status, reason = ''] =
    /^HTTP\/1\.[01] (\d{3})(?: ([^\r\n]*))?\r\n/.exec(answer.toString('latin1', 0, end)) ?? []
  if (status === undefined) throw refusal(proxy, 'its answer is not HTTP/1.1')
  if (!status.startsWith('2')) throw refusedBy(proxy, Number(status), printable(reason))
  // A receiver speaks only when it is spoken to.
  if (answer.length > end) throw refusal(proxy, 'it sent bytes before the request')
}

function refusedBy(proxy: EgressProxy, status: number, reason: string): ConnectFailure {
  const words = reason === '' ? `${status}` : `${status} ${reason}`
  if (status === 502 || status === 503) return reported(proxy, 'connect_failed', words)
  if (status === 504) return reported(proxy, 'connect_timeout', words)
  if (status === 407) return refusal(proxy, `it refused the user name and password (${words})`)
  return refusal(proxy, `it answered ${words}`)
}

function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?').slice(0, 100)
}

/** The meanings of a reply of SOCKS5 (RFC 1928), by its code. */
const socksReplies: Readonly<Record<number, readonly [OutcomeCode, string]>> = {
  1: ['proxy_failed', 'general failure'],
  2: ['proxy_failed', 'its rules do not allow the connection'],
  3: ['connect_failed', 'the network is unreachable'],
  4: ['connect_failed', 'the host is unreachable'],
  5: ['connect_refused', 'the receiver refused the connection'],
  6: ['connect_timeout', 'the time to live ran out'],
  7: ['proxy_failed', 'it does not know CONNECT'],
  8: ['proxy_failed', 'it does not know this kind of address'],
}

function* socksHandshake(proxy: EgressProxy, { host, port }: Destination): Handshake {
  const hasLogin = proxy.username !== ''
  let unread: Buffer = yield Buffer.from(hasLogin ? [5, 2, 0, 2] : [5, 1, 0])
  /** Takes exactly so many bytes of the proxy's. */
  function* take(bytes: number, write?: Buffer): Generator<Buffer | undefined, Buffer, Buffer> {
    let ask = write
    while (unread.length < bytes || ask !== undefined) {
      const asked = ask
      ask = undefined
      unread = Buffer.concat([unread, yield asked])
    }
    const taken = unread.subarray(0, bytes)
    unread = unread.subarray(bytes)
    return taken
  }
  const [version, method] = yield* take(2)
  if (version !== 5) throw refusal(proxy, 'it does not speak SOCKS5')
  if (method === 2 && hasLogin) {
    const [user, password] = [Buffer.from(proxy.username), Buffer.from(proxy.password)]
    const login = Buffer.concat([Buffer.from([1, user.length]), user, Buffer.from([password.length]), password])
    const reply = yield* take(2, login)
    if (reply[1] !== 0) throw refusal(proxy, 'it refused the user name and password')
  } else if (method !== 0) {
    throw refusal(proxy, hasLogin ? 'it takes no user name and password' : 'it asks for a user name and password')
  }
  const request = Buffer.concat([Buffer.from([5, 1, 0]), socksAddress(host), Buffer.from([port >> 8, port & 255])])
  const [, reply = 255, , kind] = yield* take(4, request)
  if (reply !== 0) {
    const [code, words] = socksReplies[reply] ?? ['proxy_failed', `reply ${reply}`]
    throw code === 'proxy_failed' ? refusal(proxy, words) : reported(proxy, code, words)
  }
  // The address that the proxy used, and its port: read, so that the next byte is the receiver's.
  const length = kind === 1 ? 4 : kind === 4 ? 16 : ((yield* take(1))[0] ?? 0)
  yield* take(length + 2)
  if (unread.length > 0) throw refusal(proxy, 'it sent bytes before the request')
}

/** The kind of an address and its bytes. */
function socksAddress(host: string): Buffer {
  if (isIP(host) === 4) return Buffer.from([1, ...host.split('.').map(Number)])
  if (isIP(host) === 6) return Buffer.concat([Buffer.from([4]), ipv6Bytes(host)])
  const name = Buffer.from(host)
  return Buffer.concat([Buffer.from([3, name.length]), name])
}

function ipv6Bytes(address: string): Buffer {
  // URL writes every IPv6 address in one form, with an embedded IPv4 address as two groups.
  const plain = new URL(`http://[${address}]`).hostname.slice(1, -1)
  const [head = '', tail = ''] = plain.split('::')
  const groups = (text: string) => (text === '' ? [] : text.split(':'))
  const zeros = plain.includes('::') ? Array(8 - groups(head).length - groups(tail).length).fill('0') : []
  const all = [...groups(head), ...zeros, ...groups(tail)].map((group) => Number.parseInt(group, 16))
  return Buffer.from(all.flatMap((group) => [group >> 8, group & 255]))
}
