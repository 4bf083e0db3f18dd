import { isUtf8 } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { SignatureProfile } from '../domain/flow.ts'
import type { SignatureHeaders } from '../features/applications/noun.ts'
import { signatureProfiles } from '../features/endpoints/noun.ts'
import { locate } from '../features/sources/terminal.ts'
import { prettyJson } from '../json/exact.ts'
import { listenOn } from '../runtime/process.ts'
import { type Address, choice, count, formatAddress } from '../runtime/setting-kinds.ts'
import { createServer } from '../wire/network.ts'
import {
  idOf,
  openVerifier,
  type ReceivedHeaders,
  SecretError,
  SignatureError,
  type Verifier,
} from '../wire/receiver.ts'
import { ApiProblem, type Client, type Item, pathOf } from './client.ts'
import { option, type RemoteCommands, repeated, type Session } from './command.ts'
import { counted, text } from './table.ts'
import { CommandError, exitCode, toJson } from './terminal.ts'

/** `sluice listen`: a receiver on this machine that verifies signatures and prints messages. */
export function addListen(commands: RemoteCommands): void {
  commands
    .add('listen', 'run a local receiver that verifies signatures and prints messages', async (session) => {
      const { terminal, options } = session
      const stopRequested = terminal.stopRequested()
      const printer = new Printer(session)
      const address = { host: options.host as string, port: options.port as number }
      const { server, address: bound } = await openReceiver(address, (arrived) => printer.receive(arrived))
      let remove = async () => {}
      try {
        printer.begin(`http://${formatAddress(bound)}/`)
        if (options.app !== undefined || options.source !== undefined) remove = await register(session, bound, printer)
        else if (options.secret !== undefined) printer.verifyWith(options.secret as string)
        printer.wait()
        await stopRequested
        await remove()
      } finally {
        server.closeAllConnections()
        server.close()
      }
      await printer.end()
    })
    .addOption(option('--port <PORT>', 'port to listen on; 0 = any free port', count(0, 65_535)).default(9000))
    .option('--host <HOST>', 'address to listen on', '127.0.0.1')
    .option(
      '--secret <SECRET>',
      'secret to verify signatures with: whsec_…, whpk_…, raw:TEXT, hex:DIGITS; plain text except for standard',
    )
    .addOption(
      option(
        '--signature <PROFILE>',
        `signature profile: ${signatureProfiles.join(', ')}`,
        choice(signatureProfiles),
      ).default('standard'),
    )
    .option('--app <APP>', 'create an endpoint in this application, and the application if it does not exist')
    .option('--source <SOURCE>', 'create an endpoint for the messages of this source alone')
    .addOption(repeated('--event-type <TYPE>', 'with --app: only this event type; may be repeated'))
    .option('--public-url <URL>', 'with --app: URL that reaches this receiver (default: the address it listens on)')
    .option('--keep', 'with --app: keep the endpoint, paused, so that messages wait for the next `sluice listen`')
    .addOption(
      option('--status <STATUS>', 'HTTP status to answer with; 401 if the signature is wrong', count(200, 599)).default(
        200,
      ),
    )
}

/** Creates the endpoint and reads its secret; the returned function deletes or pauses it. */
async function register(session: Session, bound: Address, printer: Printer): Promise<() => Promise<void>> {
  const { client, options } = session
  // The messages of a source have its id as their channel.
  const source = options.source === undefined ? undefined : await locate(session, options.source as string)
  const app = source?.app ?? (options.app as string)
  const { signatureHeaders } = await getOrCreateApp(client, app)
  const channels = source === undefined ? undefined : [source.item.id]
  const uid = `listen-${bound.port}`
  const path = pathOf('app', app, 'endpoint', uid)
  const url = (options.publicUrl as string | undefined) ?? `http://${formatAddress(bound)}/`
  const body = {
    url,
    uid,
    description: 'sluice listen',
    eventTypes: options.eventType,
    channels,
    signature: options.signature,
    // The provider's rules make the event type, so it is shown. Other endpoints get the headers that receivers get.
    headerTemplates: source === undefined ? undefined : { [typeHeader]: '{eventType}' },
  }
  await client.put(path, { body })
  const { key } = await client.get(`${path}/secret`)
  printer.verifyWith(text(key), (signatureHeaders ?? 'both') as SignatureHeaders)
  await client.post(`${path}/resume`, { body: {} })
  printer.say('Endpoint', `${uid} of ${app} on ${client.url}`)
  return async () => {
    if (options.keep === true) await client.post(`${path}/pause`, { body: {} })
    else await client.delete(path)
    printer.say('Endpoint', options.keep === true ? 'paused; the next `sluice listen` resumes it' : 'deleted')
  }
}

async function getOrCreateApp(client: Client, app: string): Promise<Item> {
  try {
    return await client.get(pathOf('app', app))
  } catch (error) {
    if (!(error instanceof ApiProblem) || error.status !== 404 || app.startsWith('app_')) throw error
    return client.post('/app', { query: { get_if_exists: true }, body: { name: app, uid: app } })
  }
}

/** The header that tells a listener at a source the event type. */
const typeHeader = 'sluice-event-type'

/** The answer to a request whose signature is wrong. */
const refusedStatus = 401

class Printer {
  readonly #session: Session
  #verifier: Verifier | undefined
  #headers: SignatureHeaders = 'both'
  /** Requests that arrived before the secret was known, from an endpoint that existed before. */
  #early: Arrived[] | undefined = []
  #requests = 0
  #verified = 0
  readonly #seen = new Set<string>()
  #last = Promise.resolve()

  constructor(session: Session) {
    this.#session = session
  }

  begin(url: string): void {
    const { terminal, json } = this.#session
    terminal.print(json ? toJson({ listening: url }) : `Listening on ${terminal.style('bold', url)}`)
  }

  verifyWith(secret: string, headers: SignatureHeaders = 'both'): void {
    const { options, world } = this.#session
    const profile = options.signature as SignatureProfile
    this.#headers = headers
    try {
      this.#verifier = openVerifier({ secret, profile, headers, now: () => world.clock.now() })
    } catch (error) {
      if (!(error instanceof SecretError)) throw error
      throw new CommandError(`--secret: ${error.message}`, exitCode.misused, { cause: error })
    }
  }

  wait(): void {
    const { terminal, json } = this.#session
    if (this.#verifier === undefined && !json)
      this.say('Secret', 'none; signatures are not verified (set --secret or --app)')
    if (!json) terminal.print(terminal.style('dim', 'Waiting for messages; Ctrl-C ends.\n'))
    const early = this.#early ?? []
    this.#early = undefined
    for (const arrived of early) this.receive(arrived)
  }

  say(name: string, what: string): void {
    const { terminal, json } = this.#session
    if (!json) terminal.print(`  ${terminal.style('dim', name.padEnd(8))}  ${what}`)
  }

  async end(): Promise<void> {
    await this.#last
    const { terminal, json } = this.#session
    if (!json) terminal.print(`${counted(this.#requests, 'request')}, ${this.#verified} verified.`)
  }

  receive(arrived: Arrived): void {
    if (this.#early !== undefined) this.#early.push(arrived)
    else this.#last = this.#answer(arrived, this.#last)
  }

  /** Answers and prints a request after the one before it, so that the lines are in the order of arrival. */
  async #answer({ request, response, body }: Arrived, before: Promise<void>): Promise<void> {
    await before
    const { terminal, json, options, world } = this.#session
    const now = world.clock.now()
    const problem = await this.#problemOf(request.headers, body)
    const verified = this.#verifier === undefined ? undefined : problem === undefined
    response.writeHead(problem === undefined ? (options.status as number) : refusedStatus).end()
    this.#requests++
    if (verified) this.#verified++
    const id = idOf(request.headers, this.#headers) ?? ''
    const again = this.#isAgain(id)
    const { method, url, headers } = request
    if (json) {
      const content = isUtf8(body) ? { body: body.toString() } : { bodyBase64: body.toString('base64') }
      const at = new Date(now).toISOString()
      return terminal.print(toJson({ at, method, path: url, id, verified, problem, again, headers, ...content }))
    }
    const verdict =
      verified === undefined
        ? terminal.style('yellow', '? not verified')
        : verified
          ? terminal.style('green', '✓ verified')
          : terminal.style('red', `✗ ${problem}`)
    const path = method === 'POST' && url === '/' ? '' : `  ${`${method} ${url}`}`
    const note = again ? terminal.style('dim', '  again') : ''
    const time = terminal.style('dim', `${new Date(now).toISOString().slice(11, 19)}Z`)
    const type = headers[typeHeader] === undefined ? '' : `  ${text(headers[typeHeader])}`
    terminal.print(`${time}  ${verdict}  ${id || '(no webhook-id)'}${type}${path}${note}`)
    terminal.print(`${contentOf(body).replace(/^/gm, '          ')}\n`)
  }

  async #problemOf(headers: ReceivedHeaders, body: Buffer): Promise<string | undefined> {
    try {
      await this.#verifier?.verify({ headers, body })
      return undefined
    } catch (error) {
      if (error instanceof SignatureError) return error.problem
      throw error
    }
  }

  /** Whether this message is among the last ten thousand. */
  #isAgain(id: string): boolean {
    const again = id !== '' && this.#seen.has(id)
    this.#seen.add(id)
    if (this.#seen.size > 10_000) this.#seen.delete(this.#seen.values().next().value as string)
    return again
  }
}

function contentOf(body: Buffer): string {
  if (body.length === 0) return '(no body)'
  if (!isUtf8(body)) return `(${counted(body.length, 'byte')} that are not text)`
  const text = body.toString()
  return prettyJson(text) ?? text
}

/** Larger than any message. A longer request is cut off. */
const bodyLimitBytes = 64 * 1024 * 1024

/** A request with its whole body. */
export interface Arrived {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly body: Buffer
}

/** Opens a server for a local receiver and returns the address that it listens on. */
export async function openReceiver(address: Address, receive: (arrived: Arrived) => void) {
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
  return { server, address: await listenOn(server, address).catch(cannotListen(address)) }
}

/** Throws CommandError with the reason unless a server can listen on the address. */
export async function assertFree(address: Address): Promise<void> {
  const server = createServer()
  await listenOn(server, address).catch(cannotListen(address))
  await new Promise<void>((resolve) => server.close(() => resolve()))
}

/** Throws CommandError with the reason why a server cannot listen. Rethrows errors without a system code. */
export function cannotListen(address: Address): (error: unknown) => never {
  return (error) => {
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    const reason = listenTroubles[code] ?? code
    throw new CommandError(`Cannot listen on ${formatAddress(address)}: ${reason}.`, exitCode.failed, { cause: error })
  }
}

const listenTroubles: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another process uses this port. Stop it, or choose another port',
  EADDRNOTAVAIL: 'this machine has no such address',
  EACCES: 'this user may not use this port',
  ENOTFOUND: 'unknown host',
  ENOTSUP: 'this system does not let processes share a port. Set --processes 1',
}
