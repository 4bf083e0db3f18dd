import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

/** Splits a stream of the protocol into messages, each with its type. The first one of a client has none. */
function messagesOf(socket: Socket, hasType: () => boolean, onMessage: (type: string, bytes: Buffer) => void): void {
  let rest: Buffer = Buffer.alloc(0)
  socket.on('data', (chunk: Buffer) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    for (;;) {
      const at = hasType() ? 1 : 0
      if (rest.length < at + 4) return
      const length = at + rest.readInt32BE(at)
      if (rest.length < length) return
      const bytes = rest.subarray(0, length)
      rest = rest.subarray(length)
      onMessage(at === 1 ? String.fromCharCode(bytes[0] as number) : '', bytes)
    }
  })
}

function message(type: string, body: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeInt32BE(body.length + 4)
  return Buffer.concat([Buffer.from(type), length, body])
}

const text = (...parts: string[]) => Buffer.from(parts.map((part) => `${part}\0`).join(''))
const ready = message('Z', Buffer.from('I'))

interface Client {
  readonly socket: Socket
  readonly waiting: Buffer[]
  server: Upstream | undefined
}

interface Upstream {
  readonly socket: Socket
  client: Client | undefined
  /** Answers that the server still owes. */
  owed: number
}

/**
 * A connection pooler in transaction mode between clients and a real server: each transaction gets the server connection that
 * was idle longest. It knows no prepared statements, as PgBouncer before 1.21.
 */
export class TransactionPooler {
  readonly url: string
  readonly #listener: Server
  readonly #sockets = new Set<Socket>()
  readonly #idle: Upstream[] = []
  readonly #queue: Client[] = []
  readonly #server: URL
  /** Connections to the server that may be made. */
  #left: number

  private constructor(listener: Server, url: string, server: string, connections: number) {
    this.#listener = listener
    this.url = url
    this.#server = new URL(server)
    this.#left = connections
  }

  /** Starts one with so many connections to the server at a URL with a password, at this port or at a free one. */
  static async start(url: string, connections = 2, port = 0): Promise<TransactionPooler> {
    const listener = createServer((socket) => pooler.#accept(socket)).listen(port, '127.0.0.1')
    await once(listener, 'listening')
    const own = new URL(url)
    own.port = String((listener.address() as AddressInfo).port)
    const pooler = new TransactionPooler(listener, own.href, url, connections)
    return pooler
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.#listener.close()
    await once(this.#listener, 'close')
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => this.#sockets.delete(socket))
    return socket.setNoDelay()
  }

  /** Makes one more connection to the server. A client whose connection ends loses its own. */
  #connect(): void {
    this.#left--
    const url = this.#server
    const socket = this.#keep(connect(Number(url.port), url.hostname))
    const upstream: Upstream = { socket, client: undefined, owed: 1 }
    let isLoggedIn = false
    socket.on('close', () => {
      this.#left++
      const at = this.#idle.indexOf(upstream)
      if (at >= 0) this.#idle.splice(at, 1)
      upstream.client?.socket.destroy()
      if (!isLoggedIn) this.#queue.shift()?.socket.destroy()
    })
    messagesOf(
      socket,
      () => true,
      (type, bytes) => {
        if (type === 'R' && bytes.readInt32BE(5) === 3)
          socket.write(message('p', text(decodeURIComponent(url.password))))
        upstream.client?.socket.write(bytes)
        if (type !== 'Z') return
        isLoggedIn = true
        upstream.owed--
        if (upstream.owed === 0 && bytes[5] === 'I'.charCodeAt(0)) this.#free(upstream)
      },
    )
    const protocol = Buffer.from([0, 3, 0, 0])
    const names = text('user', url.username, 'database', url.pathname.slice(1), '')
    socket.write(message('', Buffer.concat([protocol, names])))
  }

  #accept(socket: Socket): void {
    const client: Client = { socket: this.#keep(socket), waiting: [], server: undefined }
    let hasBegun = false
    messagesOf(
      socket,
      () => hasBegun,
      (type, bytes) => {
        if (hasBegun) {
          if (type !== 'X') this.#forward(client, bytes)
          return
        }
        // Encryption is refused.
        if (bytes.readInt32BE(4) === 80_877_103) {
          socket.write('N')
          return
        }
        hasBegun = true
        const itsOwnKey = message('K', Buffer.from([0, 0, 0, 1, 0, 0, 0, 2]))
        socket.write(Buffer.concat([message('R', Buffer.alloc(4)), itsOwnKey, ready]))
      },
    )
    socket.on('close', () => {
      const at = this.#queue.indexOf(client)
      if (at >= 0) this.#queue.splice(at, 1)
      client.server?.socket.destroy()
    })
  }

  #forward(client: Client, bytes: Buffer): void {
    client.waiting.push(bytes)
    client.server ??= this.#idle.shift()
    if (client.server !== undefined) this.#send(client, client.server)
    else if (!this.#queue.includes(client)) {
      this.#queue.push(client)
      if (this.#left > 0) this.#connect()
    }
  }

  #send(client: Client, server: Upstream): void {
    server.client = client
    for (const bytes of client.waiting.splice(0)) {
      if (bytes[0] === 'Q'.charCodeAt(0) || bytes[0] === 'S'.charCodeAt(0)) server.owed++
      server.socket.write(bytes)
    }
  }

  #free(server: Upstream): void {
    if (server.client !== undefined) server.client.server = undefined
    server.client = undefined
    const next = this.#queue.shift()
    if (next === undefined) {
      this.#idle.push(server)
      return
    }
    next.server = server
    this.#send(next, server)
  }
}
