import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import { Backlog } from '../domain/turns.ts'
import type { ConnectionLimit, ConnectionSlot } from './connection-limit.ts'

/** Requests of one connection that are under way or whose answers are unread. Further ones stay unparsed. */
const openAtMost = 16
/** A connection at its limit goes on when this many are left, so that it pauses once for many answers. */
const openToGoOn = openAtMost / 2
/**
 * Requests that begin at once in one turn of the event loop, over all connections. 256 of them take about 15 ms; a slice of
 * the others begins in each turn that follows.
 */
const atOncePerTurn = 256
/** Fewer requests than this may belong to as many turns; a count of turns would cost each of them a turn of its own. */
const uncounted = 32

/** Bytes behind a refused request that are dropped before the connection ends. */
const droppedAtMost = 1024 * 1024

const headEnd = Buffer.from('\r\n\r\n')
const [carriageReturn, lineFeed] = [13, 10]

/**
 * Bounds the requests that a client sends without waiting for answers. Node parses all requests of a packet of 64 KiB, some
 * 2,000, and begins them in one turn, whatever becomes of the connection meanwhile. So the bytes are cut before they reach
 * Node's parser, in pieces of which each begins at most one request. Bytes that must wait go back to the socket, which
 * pauses and reads no more: a connection holds at most one packet (64 KiB) and 16 requests.
 *
 * Only the moment at which a byte is parsed depends on this, never what becomes of it: Node's parser gets every byte, in
 * order.
 */
export class Pipelining {
  readonly #connections = new WeakMap<object, Connection>()
  readonly #turn: Turn

  constructor(server: Server, clock: Clock, limit: ConnectionLimit) {
    this.#turn = new Turn(clock)
    server.on('connection', (socket) => {
      const place = limit.of(socket)
      if (place !== undefined) this.#connections.set(socket, new Connection(socket, this.#turn, place))
    })
    const begin = (request: IncomingMessage, response: ServerResponse) =>
      this.of(request.socket)?.begin(request, response)
    server.prependListener('request', begin)
    server.prependListener('checkExpectation', begin)
    server.on('checkContinue', (request, response) => {
      begin(request, response)
      inItsTurn(response, () => {
        response.writeContinue()
        server.emit('request', request, response)
      })
    })
    server.prependListener('connect', ({ socket }) => this.of(socket)?.stop())
  }

  /** The connection of a socket; undefined for a request that came over none. */
  of(socket: Duplex): Connection | undefined {
    return this.#connections.get(socket)
  }
}

/** The requests that may begin in one turn of the event loop. */
class Turn {
  readonly #clock: Clock
  /** Connections with one request each that came when a turn had begun enough. */
  readonly single: Backlog<Connection>
  /** Connections with several requests. They never hold up those with one. */
  readonly several: Backlog<Connection>
  #begun = 0

  constructor(clock: Clock) {
    this.#clock = clock
    const goOn = (connection: Connection, until: SteadyMs) => connection.goOn(until)
    this.single = new Backlog(clock, goOn)
    this.several = new Backlog(clock, goOn)
  }

  /** Whether a request without any other on its connection begins at once. */
  takesOne(): boolean {
    if (this.#begun >= atOncePerTurn) return false
    if (++this.#begun === uncounted) {
      this.#clock.soon(() => {
        this.#begun = 0
      })
    }
    return true
  }

  isBefore(until: SteadyMs): boolean {
    return this.#clock.steady() < until
  }
}

/** One connection of a client: how many of its requests are open, and which bytes may go on to Node's parser. */
export class Connection {
  readonly #socket: Socket
  readonly #turn: Turn
  readonly #place: ConnectionSlot
  readonly #parse: (bytes: Buffer) => void
  #open = 0
  #latest: IncomingMessage | undefined
  #latestIsOpen = false
  /** Bytes of the latest body that have not come yet, where its length is known. They begin no request. */
  #bodyLeft = 0
  /** Bytes that follow the head in the piece that is being parsed. */
  #afterHead = 0
  /** Whether the next bytes may be the end of a head, because the last one parsed was a part of an empty line. */
  #mayEndHead = false
  /** Whether the socket is paused, with bytes that may not begin yet. */
  #isHeld = false
  #isStopped = false
  #dropped = 0
  /** Until when a visit of the backlog may begin requests. */
  #until: SteadyMs | undefined
  #onAnswered: (() => void) | undefined

  constructor(socket: Socket, turn: Turn, place: ConnectionSlot) {
    this.#socket = socket
    this.#turn = turn
    this.#place = place
    // Node's own listener feeds its parser. Taking its place also ends the direct way from the system to the parser.
    const [parse] = socket.listeners('data') as [(bytes: Buffer) => void]
    this.#parse = parse
    socket.removeListener('data', parse)
    socket.on('data', (bytes: Buffer) => this.#take(bytes))
    socket.once('close', () => this.stop())
    readOnePacket(socket)
  }

  /** Whether the connection waits for this server: its bytes have come, and may not begin yet. */
  get isHeld(): boolean {
    return this.#isHeld
  }

  /** Counts a request until its answer has left this process. */
  begin(request: IncomingMessage, response: ServerResponse): void {
    // A request that waited for its `100 Continue` is announced twice.
    if (request === this.#latest) return
    if (this.#open++ === 0) this.#place.setBusy()
    this.#latest = request
    this.#latestIsOpen = true
    const length = request.headers['content-length']
    this.#bodyLeft = length === undefined ? 0 : Math.max(0, Number(length) - this.#afterHead)
    response.once('close', () => this.#end(request))
  }

  #end(request: IncomingMessage): void {
    if (--this.#open === 0) this.#place.setIdle()
    if (request === this.#latest) this.#latestIsOpen = false
    if (this.#isHeld && this.#open <= openToGoOn) this.#turn.several.add(this)
    this.#tellAnswered()
  }

  /** Goes on with the bytes that are held: with one request, and with more of them until then. */
  goOn(until: SteadyMs): void {
    if (!this.#isHeld || this.#isStopped) return
    this.#isHeld = false
    this.#until = until
    this.#socket.resume()
    this.#socket.read()
    this.#until = undefined
  }

  /** Parses nothing more. Later bytes are read and dropped, up to 1 MiB, so that the client gets to its answers. */
  stop(): void {
    this.#isStopped = true
    this.#turn.single.delete(this)
    this.#turn.several.delete(this)
    if (this.#isHeld && !this.#socket.destroyed) this.#socket.resume()
    this.#isHeld = false
  }

  /** Parses nothing more, and calls back when all requests that had arrived whole are answered; at once if they are. */
  endAfterAnswers(then: () => void): void {
    this.stop()
    this.#onAnswered = then
    this.#tellAnswered()
  }

  #tellAnswered(): void {
    const arriving = this.#latestIsOpen && this.#latest?.complete === false ? 1 : 0
    if (this.#open > arriving) return
    this.#onAnswered?.()
    this.#onAnswered = undefined
  }

  #take(bytes: Buffer): void {
    if (this.#isStopped) {
      this.#dropped += bytes.length
      if (this.#dropped > droppedAtMost) this.#socket.destroy()
      return
    }
    // Node resumes sockets at the end of a request, those that are held as well.
    this.#isHeld = false
    let at = 0
    let begun = 0
    // Node pauses the socket when enough of a body or of answers waits in memory.
    while (at < bytes.length && !this.#isStopped && !this.#socket.isPaused()) {
      const piece = this.#pieceOf(bytes, at)
      if (piece.begins) {
        if (!this.#mayBegin(begun, at === 0 && piece.end === bytes.length)) return this.#hold(bytes.subarray(at))
        begun++
      }
      this.#afterHead = piece.end - piece.headEnd
      this.#mayEndHead = isLineEnd(bytes[piece.end - 1])
      this.#parse(at === 0 && piece.end === bytes.length ? bytes : bytes.subarray(at, piece.end))
      at = piece.end
    }
    if (at < bytes.length && !this.#isStopped) this.#giveBack(bytes.subarray(at))
  }

  /**
   * The next bytes that begin at most one request. A request begins when its head ends, so the bytes go up to the end of the
   * next head, and as far behind it as no other head ends.
   */
  #pieceOf(bytes: Buffer, at: number): { readonly end: number; readonly headEnd: number; readonly begins: boolean } {
    if (this.#bodyLeft > 0) {
      const end = Math.min(bytes.length, at + this.#bodyLeft)
      this.#bodyLeft -= end - at
      return { end, headEnd: end, begins: false }
    }
    // The end of a chunked body is an empty line, too; a request after it has an empty line of its own.
    const begins = this.#latest?.complete !== false
    if (this.#mayEndHead && isLineEnd(bytes[at])) {
      let end = at + 1
      while (end < at + 3 && isLineEnd(bytes[end])) end++
      return { end, headEnd: end, begins }
    }
    const found = bytes.indexOf(headEnd, at)
    if (found < 0) return { end: bytes.length, headEnd: bytes.length, begins: false }
    const end = found + headEnd.length
    return { end: bytes.includes(headEnd, end) ? end : bytes.length, headEnd: end, begins }
  }

  #mayBegin(begun: number, isSingle: boolean): boolean {
    if (this.#open >= openAtMost) return false
    if (this.#until !== undefined) return begun === 0 || this.#turn.isBefore(this.#until)
    return isSingle && this.#open === 0 && this.#turn.takesOne()
  }

  #hold(bytes: Buffer): void {
    this.#isHeld = true
    this.#socket.pause()
    this.#giveBack(bytes)
    if (this.#open >= openAtMost) return
    const isSingle = this.#open === 0 && this.#pieceOf(bytes, 0).end === bytes.length
    this.#turn[isSingle ? 'single' : 'several'].add(this)
  }

  #giveBack(bytes: Buffer): void {
    if (!this.#socket.destroyed) this.#socket.unshift(bytes)
  }
}

/**
 * Calls back when all answers before this one are out. Node would write `100 Continue` between the head and the body of a response
 * that waits for others.
 */
function inItsTurn(response: ServerResponse, then: () => void): void {
  if (response.socket === null) response.once('socket', then)
  else then()
}

function isLineEnd(byte: number | undefined): boolean {
  return byte === carriageReturn || byte === lineFeed
}

/**
 * Makes a socket that is paused keep what has come, and read nothing more. By default it would read on until it holds 64 KiB
 * beside that, in packets of one byte each if the client likes, which take 300 times their bytes. Node sets this limit together with
 * that of answers, which must stay.
 */
function readOnePacket(socket: Socket): void {
  const { _readableState: state } = socket as unknown as { readonly _readableState: { highWaterMark: number } }
  state.highWaterMark = 1
}
