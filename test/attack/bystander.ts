import { connect, type Socket } from 'node:net'
import { parentPort } from 'node:worker_threads'

/**
 * A client that asks for the health of a server over and over, on a thread of its own: the work of the attacker does not
 * count as a wait. `begin` names the server, and is answered with `ready` at the first answer of that server, from which
 * on waits count. `read` ends the questions, and is answered with the longest wait.
 */
export interface Question {
  readonly question: 'begin' | 'read'
  readonly port: number
  /** The time between an answer and the next question. */
  readonly pauseMs: number
}

const ping = 'GET /api/v1/health/ping HTTP/1.1\r\nhost: bystander\r\n\r\n'

let isReady = false
let longestMs = 0
/** When the question without an answer was asked. */
let askedAt: number | undefined
let socket: Socket | undefined

const waitedMs = () => (askedAt === undefined ? 0 : performance.now() - askedAt)

function ask(port: number, pauseMs: number): void {
  const mine = connect(port, '127.0.0.1')
  socket = mine
  const write = () => {
    if (socket !== mine || mine.destroyed) return
    askedAt = performance.now()
    mine.write(ping)
  }
  // The server may have ended: the attack fails by that.
  mine.on('error', () => {})
  mine.on('connect', write)
  mine.on('data', () => {
    if (socket !== mine) return
    if (isReady) longestMs = Math.max(longestMs, waitedMs())
    else parentPort?.postMessage('ready')
    isReady = true
    askedAt = undefined
    setTimeout(write, pauseMs)
  })
  mine.on('close', () => {
    if (socket !== mine) return
    askedAt = undefined
    setTimeout(() => socket === mine && ask(port, pauseMs), pauseMs)
  })
}

parentPort?.on('message', ({ question, port, pauseMs }: Question) => {
  if (question === 'begin') {
    isReady = false
    longestMs = 0
    // An attack that failed has not asked for its waits.
    const last = socket
    ask(port, pauseMs)
    last?.destroy()
    return
  }
  // A wait that has not ended counts as far as it went.
  parentPort?.postMessage(Math.max(longestMs, waitedMs()))
  const last = socket
  socket = undefined
  askedAt = undefined
  last?.destroy()
})
