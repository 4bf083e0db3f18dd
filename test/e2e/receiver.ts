import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { atEnd, type Life } from './at-end.ts'
import { deadlineMs } from './eventually.ts'
import { PollMarks } from './poll-marks.ts'

/** One request as it came, and what became of it. Instants are of this process's steady clock, in milliseconds. */
export interface Arrival {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** Its first byte came after this instant (NaN unless the receiver is timed, so that no comparison holds) … */
  readonly notBefore: number
  /** … and was read at this one. */
  readonly at: number
  /** When it was answered or its connection was closed, whichever came first. */
  endedAt: number | undefined
  end: 'answered' | 'cut off' | undefined
  status: number | undefined
}

export interface Answer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** How one path meets its requests. A promise keeps the request open until it resolves. */
export type Behaviour = (arrival: Arrival) => Answer | Promise<Answer>

interface Waiter {
  readonly isMet: () => boolean
  readonly resolve: () => void
}

/**
 * The receiving end of every endpoint: a bare server that remembers each request byte for byte, with the instants
 * between which it came and until which it was open. A path without a behaviour answers 200 at once.
 */
export class Receiver {
  readonly url: string
  readonly arrivals: Arrival[] = []
  readonly open = new Set<Arrival>()
  readonly #behaviours = new Map<string, Behaviour>()
  readonly #marks: PollMarks | undefined
  readonly #waiters = new Set<Waiter>()
  #looking = false

  private constructor(port: number, marks: PollMarks | undefined) {
    this.url = `http://127.0.0.1:${port}`
    this.#marks = marks
  }

  /** A timed one knows `notBefore` of each request, and wakes up every 2 ms for it. */
  static async listen(t: Life, { timed = false } = {}): Promise<Receiver> {
    const sockets = new Set<Socket>()
    const marks = timed ? new PollMarks() : undefined
    const server = createServer({ noDelay: true }, (socket) => {
      sockets.add(socket)
      socket.on('close', () => sockets.delete(socket))
      receiver.#serve(socket)
    })
    server.listen({ host: '127.0.0.1', port: 0, backlog: 1024 })
    await once(server, 'listening')
    const receiver = new Receiver((server.address() as AddressInfo).port, marks)
    atEnd(t, async () => {
      marks?.stop()
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    })
    return receiver
  }

  behave(path: string, behaviour: Behaviour): void {
    this.#behaviours.set(path, behaviour)
  }

  /** Requests for one path, in the order they came. */
  at(path: string): Arrival[] {
    return this.arrivals.filter((arrival) => arrival.path === path)
  }

  /** Waits until something holds that only requests coming in or ending can bring about. */
  until(what: string, isMet: () => boolean): Promise<void> {
    if (isMet()) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const limit = setTimeout(() => {
        this.#waiters.delete(waiter)
        reject(new Error(`${what}: not within ${deadlineMs / 1000} s, after ${this.arrivals.length} requests`))
      }, deadlineMs)
      const waiter: Waiter = {
        isMet,
        resolve: () => {
          clearTimeout(limit)
          resolve()
        },
      }
      this.#waiters.add(waiter)
    })
  }

  #serve(socket: Socket): void {
    // The bytes of the first request may lie in the kernel since before the connection was noticed.
    const acceptedAfter = this.#marks?.lastPollBegan ?? Number.NaN
    let isFirst = true
    let notBefore = 0
    let at = 0
    let bytes = Buffer.alloc(0)
    const opened = new Set<Arrival>()
    socket.on('data', (chunk: Buffer) => {
      if (bytes.length === 0) {
        at = performance.now()
        notBefore = isFirst ? acceptedAfter : (this.#marks?.lastPollBegan ?? Number.NaN)
        isFirst = false
      }
      bytes = Buffer.concat([bytes, chunk])
      const request = takeRequest(bytes)
      if (request === undefined) return
      bytes = request.rest
      const { path, headers, body } = request
      const instants = { notBefore, at, endedAt: undefined }
      const arrival: Arrival = { path, headers, body, ...instants, end: undefined, status: undefined }
      opened.add(arrival)
      this.#arrived(arrival)
      void this.#meet(socket, arrival).then(() => opened.delete(arrival))
    })
    socket.on('close', () => {
      for (const arrival of opened) this.#ended(arrival, 'cut off')
    })
    socket.on('error', () => socket.destroy()) // The peer was killed or gave up: expected here.
  }

  async #meet(socket: Socket, arrival: Arrival): Promise<void> {
    const behave = this.#behaviours.get(arrival.path)
    const { status, headers = {}, body = '' } = behave ? await behave(arrival) : { status: 200 }
    if (socket.destroyed) return
    arrival.status = status
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
    // Ended before it is written: a count of open requests never has one that its sender has seen end.
    this.#ended(arrival, 'answered')
    socket.write(
      `HTTP/1.1 ${status} Answer\r\n${lines.join('')}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    )
  }

  #arrived(arrival: Arrival): void {
    this.arrivals.push(arrival)
    this.open.add(arrival)
    this.#look()
  }

  #ended(arrival: Arrival, end: 'answered' | 'cut off'): void {
    if (arrival.end !== undefined) return
    arrival.end = end
    arrival.endedAt = performance.now()
    this.open.delete(arrival)
    this.#look()
  }

  #look(): void {
    if (this.#looking) return
    this.#looking = true
    setImmediate(() => {
      this.#looking = false
      for (const waiter of this.#waiters) {
        if (!waiter.isMet()) continue
        this.#waiters.delete(waiter)
        waiter.resolve()
      }
    })
  }
}

type Request = Pick<Arrival, 'path' | 'headers' | 'body'> & { readonly rest: Buffer<ArrayBuffer> }

/** The first complete request of what was read, with a body as long as its content-length says. */
function takeRequest(bytes: Buffer<ArrayBuffer>): Request | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const [requestLine = '', ...lines] = bytes.toString('latin1', 0, headEnd).split('\r\n')
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  const bodyStart = headEnd + 4
  const end = bodyStart + Number(headers['content-length'] ?? 0)
  if (bytes.length < end) return undefined
  const path = requestLine.split(' ')[1] ?? ''
  return { path, headers, body: bytes.subarray(bodyStart, end), rest: bytes.subarray(end) }
}
