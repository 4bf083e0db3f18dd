import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect, createServer as createTcp, type Server, type Socket } from 'node:net'
import type { TestContext } from 'node:test'

/** A proxy on loopback, what it was asked for, and how many bytes it passed on. */
export interface TestProxy {
  readonly port: number
  readonly asked: { readonly to: string; readonly login: string | undefined }[]
}

const portOf = (server: Server): number => (server.address() as AddressInfo).port

async function listening(t: TestContext, server: Server): Promise<void> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
}

/** Joins both sockets; `answer` is written when the far one is connected. */
function join(near: Socket, host: string, port: number, answer: (error?: NodeJS.ErrnoException) => Buffer): void {
  const far = connect({ host, port }, () => {
    near.write(answer())
    near.pipe(far).pipe(near)
  })
  far.on('error', (error) => near.destroyed || near.end(answer(error)))
  near.on('close', () => far.destroy())
}

/** A proxy that speaks CONNECT with Node's own parser. `refuse` is its whole answer to every request. */
export async function connectProxy(t: TestContext, refuse?: string): Promise<TestProxy> {
  const asked: TestProxy['asked'] = []
  const server = createServer()
  server.on('connect', (request: IncomingMessage, socket: Socket) => {
    const login = request.headers['proxy-authorization']
    asked.push({ to: request.url ?? '', login: login && Buffer.from(login.slice(6), 'base64').toString() })
    if (refuse !== undefined) return void socket.end(refuse)
    const [, host = '', port = ''] = /^\[?(.*?)\]?:(\d+)$/.exec(request.url ?? '') ?? []
    join(socket, host, Number(port), (error) =>
      Buffer.from(
        error ? 'HTTP/1.1 502 Bad Gateway\r\n\r\n' : 'HTTP/1.1 200 Connection established\r\nvia: test\r\n\r\n',
      ),
    )
  })
  await listening(t, server)
  return { port: portOf(server), asked }
}

/** A proxy that speaks SOCKS5, and reads each byte by itself. */
export async function socksProxy(t: TestContext, login?: string): Promise<TestProxy> {
  const asked: TestProxy['asked'] = []
  const server = createTcp((socket) => void serve(socket).catch(() => socket.destroy()))
  async function serve(socket: Socket): Promise<void> {
    const read = reader(socket)
    const [, count = 0] = await read(2)
    const methods = await read(count)
    const method = login === undefined ? 0 : 2
    if (!methods.includes(method)) return void socket.end(Buffer.from([5, 255]))
    socket.write(Buffer.from([5, method]))
    let given: string | undefined
    if (login !== undefined) {
      const user = await read((await read(2))[1] ?? 0)
      const password = await read((await read(1))[0] ?? 0)
      given = `${user}:${password}`
      socket.write(Buffer.from([1, given === login ? 0 : 1]))
      if (given !== login) return void socket.end()
    }
    const [, , , kind] = await read(4)
    const host = await hostOf(kind, read)
    const port = (await read(2)).readUInt16BE()
    asked.push({ to: `${host}:${port}`, login: given })
    socket.removeAllListeners('data')
    join(socket, host, port, (error) => Buffer.from([5, error ? 5 : 0, 0, 1, 0, 0, 0, 0, 0, 0]))
  }
  await listening(t, server)
  return { port: portOf(server), asked }
}

async function hostOf(kind: number | undefined, read: (bytes: number) => Promise<Buffer>): Promise<string> {
  if (kind === 1) return [...(await read(4))].join('.')
  if (kind === 3) return (await read((await read(1))[0] ?? 0)).toString()
  const bytes = await read(16)
  return Array.from({ length: 8 }, (_, i) => bytes.readUInt16BE(2 * i).toString(16)).join(':')
}

function reader(socket: Socket): (bytes: number) => Promise<Buffer> {
  let unread = Buffer.alloc(0)
  let wake = () => {}
  socket.on('data', (bytes: Buffer) => {
    unread = Buffer.concat([unread, bytes])
    wake()
  })
  return async (bytes) => {
    while (unread.length < bytes) {
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
    const taken = unread.subarray(0, bytes)
    unread = unread.subarray(bytes)
    return taken
  }
}
