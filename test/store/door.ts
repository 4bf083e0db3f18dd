import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { atEnd } from '../e2e/at-end.ts'

/** One address that leads to one Postgres server after the other, as a name or a TCP proxy does in a failover. */
export class Door {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #target: URL

  private constructor(server: Server, url: string) {
    this.#server = server
    this.#target = new URL(url)
  }

  static async open(t: TestContext, url: string): Promise<Door> {
    const server = createServer()
    const door = new Door(server, url)
    server.on('connection', (socket) => door.#pass(socket))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    atEnd(t, () => {
      door.#cutAll()
      server.close()
    })
    return door
  }

  get url(): string {
    const own = new URL(this.#target)
    own.port = String((this.#server.address() as AddressInfo).port)
    return own.href
  }

  /** New connections lead there; all others are cut. */
  leadsTo(url: string): void {
    this.#target = new URL(url)
    this.#cutAll()
  }

  #cutAll(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  #pass(socket: Socket): void {
    const other = connect(Number(this.#target.port), this.#target.hostname)
    for (const each of [socket, other]) {
      this.#sockets.add(each)
      each.on('error', () => {})
      each.on('close', () => {
        this.#sockets.delete(each)
        socket.destroy()
        other.destroy()
      })
    }
    socket.pipe(other).pipe(socket)
  }
}
