import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** What strangers do on many connections at once. */
export interface Flood {
  readonly connections: number
  /** The bytes that each connection writes at once. */
  readonly bytes: string
  /** Whether they read the answers. */
  readonly reads: boolean
}

/** One connection of a stranger. */
export interface Stranger {
  readonly socket: Socket
  /** Bytes that the server answered. */
  received: number
  isClosed: boolean
}

/** Connections that open at once. More of them only wait in the kernel. */
const openAtOnce = 500

/** Opens connections, and writes to each as soon as it is open. Resolves when each was opened or refused. */
export async function flood(port: number, { connections, bytes, reads }: Flood): Promise<Stranger[]> {
  const strangers: Stranger[] = []
  const packet = Buffer.from(bytes)
  let left = connections
  const openSome = async () => {
    while (left-- > 0) strangers.push(await open(port, packet, reads))
  }
  await Promise.all(Array.from({ length: Math.min(openAtOnce, connections) }, openSome))
  return strangers
}

function open(port: number, packet: Buffer, reads: boolean): Promise<Stranger> {
  const socket = connect(port, '127.0.0.1')
  const stranger: Stranger = { socket, received: 0, isClosed: false }
  if (reads) {
    socket.on('data', ({ length }) => {
      stranger.received += length
    })
  }
  // The server may hang up on a stranger.
  socket.on('error', () => {})
  return new Promise((resolve) => {
    socket.on('connect', () => {
      if (!reads) socket.pause()
      if (packet.length > 0) socket.write(packet)
      resolve(stranger)
    })
    socket.on('close', () => {
      stranger.isClosed = true
      resolve(stranger)
    })
  })
}

export function hangUp(strangers: readonly Stranger[]): void {
  for (const { socket } of strangers) socket.destroy()
}

/** Sends requests for pages that do not exist in one packet; resolves with the paths that the answers name, in their order. */
export async function pipelined(socket: Socket, paths: readonly string[]): Promise<string[]> {
  socket.write(paths.map((path) => `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`).join(''))
  const found: string[] = []
  let said = ''
  while (found.length < paths.length) {
    said += String(await once(socket, 'data'))
    for (const [whole, path] of said.matchAll(/HTTP\/1\.1 404 .*?"instance":"([^"]*)".*?\}/gs)) {
      found.push(path as string)
      said = said.slice(said.indexOf(whole) + whole.length)
    }
  }
  return found
}
