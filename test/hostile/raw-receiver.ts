import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { createServer as createTlsServer, type TlsOptions } from 'node:tls'

/** A request as it came, byte for byte. */
export interface RawRequest {
  readonly head: string
  readonly body: Buffer
  /** 1 for the first request on its connection. */
  readonly nth: number
}

/** Plays one receiver: what it does with each complete request. */
export type Behaviour = (socket: Socket, request: RawRequest) => void

/** A receiver that may do anything a socket can, and remembers what came. */
export interface RawReceiver {
  readonly url: string
  readonly port: number
  readonly requests: RawRequest[]
  /** How many TCP connections were made to it. */
  connections: number
  /** How many of them are open. */
  readonly open: ReadonlySet<Socket>
}

/** Starts a receiver on loopback that ends with the test. `onConnect` may take the connection over. */
export async function rawReceiver(
  t: TestContext,
  behave: Behaviour,
  options: { host?: string; tls?: TlsOptions; onConnect?: (socket: Socket) => boolean } = {},
): Promise<RawReceiver> {
  const host = options.host ?? '127.0.0.1'
  const open = new Set<Socket>()
  const accept = (socket: Socket) => {
    socket.on('error', () => {})
    if (options.onConnect?.(socket) !== true) readRequests(socket, receiver.requests, behave)
  }
  const server: Server = options.tls ? createTlsServer(options.tls, accept) : createServer(accept)
  server.on('connection', (socket) => {
    receiver.connections++
    open.add(socket)
    socket.on('close', () => open.delete(socket))
    socket.on('error', () => {})
  })
  server.listen(0, host)
  await once(server, 'listening')
  t.after(async () => {
    const closed = once(server, 'close')
    server.close()
    for (const socket of open) socket.destroy()
    await closed
  })
  const { port } = server.address() as AddressInfo
  const authority = host.includes(':') ? `[${host}]` : host
  const url = `${options.tls ? 'https' : 'http'}://${authority}:${port}/hook`
  const receiver: RawReceiver = { url, port, requests: [], connections: 0, open }
  return receiver
}

/** Cuts what arrives into requests by their content-length. */
function readRequests(socket: Socket, requests: RawRequest[], behave: Behaviour): void {
  let bytes = Buffer.alloc(0)
  let nth = 0
  socket.on('data', (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk])
    for (;;) {
      const headEnd = bytes.indexOf('\r\n\r\n')
      if (headEnd < 0) return
      const head = bytes.toString('latin1', 0, headEnd)
      const end = headEnd + 4 + Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0)
      if (bytes.length < end) return
      const request = { head, body: bytes.subarray(headEnd + 4, end), nth: ++nth }
      bytes = bytes.subarray(end)
      requests.push(request)
      behave(socket, request)
    }
  })
}

/** An answer with a content-length. */
export function answer(status: string, body = '', headers: readonly string[] = []): string {
  return [`HTTP/1.1 ${status}`, `content-length: ${Buffer.byteLength(body)}`, ...headers, '', body].join('\r\n')
}

/** Writes a chunk again and again, as fast as it is taken. */
export function flood(socket: Socket, chunk: string): void {
  const more = () => {
    while (!socket.destroyed && socket.write(chunk)) {}
  }
  socket.on('drain', more)
  more()
}
