import { connect } from 'node:net'
import { parentPort, workerData } from 'node:worker_threads'

/**
 * A client that asks for the health of the server over and over, on a thread of its own: the work of the attacker does
 * not count as a wait. It says `ready` at the first answer, and asks on from `begin` to `read`, which is answered with
 * the longest wait since then.
 */
const { port, pauseMs } = workerData as { readonly port: number; readonly pauseMs: number }
const ping = 'GET /api/v1/health/ping HTTP/1.1\r\nhost: bystander\r\n\r\n'

let isReady = false
let isAsking = false
/** Asks by the connection that waits for the next attack. */
let idle: (() => void) | undefined
let longestMs = 0
let begunAt = 0
/** When the question without an answer was asked. */
let askedAt: number | undefined

const waitedMs = () => (askedAt === undefined ? 0 : performance.now() - Math.max(askedAt, begunAt))

function ask(): void {
  const socket = connect(port, '127.0.0.1')
  const write = () => {
    if (socket.destroyed) return
    if (isReady && !isAsking) {
      idle = write
      return
    }
    askedAt = performance.now()
    socket.write(ping)
  }
  // The server may have ended: the attack fails by that.
  socket.on('error', () => {})
  socket.on('connect', write)
  socket.on('data', () => {
    if (!isReady) parentPort?.postMessage('ready')
    isReady = true
    longestMs = Math.max(longestMs, waitedMs())
    askedAt = undefined
    setTimeout(write, pauseMs)
  })
  socket.on('close', () => {
    askedAt = undefined
    setTimeout(ask, pauseMs)
  })
}

parentPort?.on('message', (question: 'begin' | 'read') => {
  // A wait that has not ended counts as far as it went.
  if (question === 'read') parentPort?.postMessage(Math.max(longestMs, waitedMs()))
  begunAt = performance.now()
  longestMs = 0
  isAsking = question === 'begin'
  if (!isAsking) return
  idle?.()
  idle = undefined
})

ask()
