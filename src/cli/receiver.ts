import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { type Address, formatAddress } from '../runtime/setting-kinds.ts'
import { createServer } from '../wire/network.ts'
import { CommandError, exitCode } from './exit.ts'

/** Larger than any message. A longer request is cut off. */
const bodyLimitBytes = 64 * 1024 * 1024

/** A request with its whole body. */
export interface Arrived {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly body: Buffer
}

/** Opens a server for a local receiver and returns the address that it listens on. */
export async function openReceiver(
  { host, port }: Address,
  receive: (arrived: Arrived) => void,
): Promise<{ server: Server; address: Address }> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    let bytes = 0
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > bodyLimitBytes) request.destroy()
      else chunks.push(chunk)
    })
    // A sender that hangs up early needs no response.
    request.on('error', () => {})
    request.on('end', () => receive({ request, response, body: Buffer.concat(chunks) }))
  })
  await listen(server, { host, port })
  const bound = server.address()
  return { server, address: { host, port: typeof bound === 'object' && bound !== null ? bound.port : port } }
}

/** Throws CommandError with the reason unless a server can listen on the address. */
export async function assertFree(address: Address): Promise<void> {
  const server = createServer()
  await listen(server, address)
  await new Promise<void>((resolve) => server.close(() => resolve()))
}

/** Listens, or throws CommandError with the reason. */
export async function listen(server: Server, { host, port }: Address): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, host, resolve)
    })
  } catch (error) {
    throw cannotListen(error, { host, port })
  }
}

/** The error that explains why a server cannot listen. Rethrows errors without a system code. */
export function cannotListen(error: unknown, address: Address): CommandError {
  const { code } = error as NodeJS.ErrnoException
  if (code === undefined) throw error
  const reason = listenTroubles[code] ?? code
  return new CommandError(`Cannot listen on ${formatAddress(address)}: ${reason}.`, exitCode.failed, { cause: error })
}

const listenTroubles: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another process uses this port',
  EADDRNOTAVAIL: 'this machine has no such address',
  EACCES: 'this user may not use this port',
  ENOTFOUND: 'unknown host',
}
