import { connect as connectSocket } from 'node:net'
import { FrameReader } from './http-frames.ts'

/** A keep-alive connection that carries one ready-made request at a time. */
export interface HttpConnection {
  /** Writes the request; one of the two is called, once. */
  send(request: Buffer, onError: (error: Error) => void, onAnswer: (status: number, body: Buffer) => void): void
  close(): void
}

/** Connects to the origin of a URL. */
export function connect(url: string): Promise<HttpConnection> {
  const { hostname, port, origin } = new URL(url)
  const socket = connectSocket({ host: hostname, port: Number(port), noDelay: true })
  const frames = new FrameReader()
  let failed: ((error: Error) => void) | undefined
  let answered: ((status: number, body: Buffer) => void) | undefined
  socket.on('data', (chunk) =>
    frames.read(chunk, (head, body) => {
      const done = answered
      answered = undefined
      done?.(Number(head.slice(9, 12)), body)
    }),
  )
  const fail = (error?: Error): void => {
    socket.destroy()
    if (!answered) return
    answered = undefined
    failed?.(new Error(`the connection to ${origin} ended before the answer`, { cause: error }))
  }
  socket.on('close', () => fail())
  const connection: HttpConnection = {
    send(request, onError, onAnswer) {
      if (socket.destroyed) return onError(new Error(`${origin} closed the connection while it was idle`))
      failed = onError
      answered = onAnswer
      socket.write(request)
    },
    close: () => socket.destroy(),
  }
  return new Promise((resolve, reject) => {
    socket.once('error', (error) => {
      reject(error)
      fail(error)
    })
    socket.once('connect', () => resolve(connection))
  })
}
