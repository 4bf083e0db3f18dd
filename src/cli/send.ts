import { AppError } from '../domain/app-error.ts'
import { Scanner } from '../json/scan.ts'
import { type Item, pathOf, type Query } from './client.ts'
import { instantOption, type RemoteCommands, repeated, type Session } from './command.ts'
import { CommandError, exitCode } from './exit.ts'
import { text } from './table.ts'
import { readNamedFile } from './terminal.ts'

const inputSign = '-'
const fileSign = '@'

/** `sluice send`: publishes one message. The payload's bytes are sent unchanged: they are never parsed. */
export function addSend(commands: RemoteCommands): void {
  commands
    .add(
      'send <app> <event-type> [payload]',
      'publish a message; the payload is JSON, @FILE, or - for standard input (default)',
      async (session, [app, eventType, given]) => {
        const payload = await readPayload(session, given)
        const { raw, contentType = 'application/octet-stream' } = session.options as Record<string, string | undefined>
        const envelope = envelopeOf(session, eventType)
        const path = pathOf('app', app, 'msg')
        const message = raw
          ? await session.client.post(`${path}/raw`, { query: queryOf(envelope), body: payload, contentType })
          : await session.client.post(path, { query: { with_content: false }, body: withPayload(envelope, payload) })
        session.show(message, (item) => describe(session, app, item))
      },
    )
    .option('--event-id <ID>', 'your own id for it; a second message with the same id is refused')
    .addOption(repeated('--channel <CHANNEL>', 'channel; may be repeated'))
    .addOption(repeated('--tag <TAG>', 'tag to find it by; may be repeated'))
    .option('--deliver-at <INSTANT>', 'deliver not before, such as 2026-11-15T10:00:00Z, or 2h for in two hours')
    .option('--expires-at <INSTANT>', 'discard if undelivered by then, such as 2026-11-15T10:00:00Z, or 2h')
    .option('--ordering-key <KEY>', 'endpoints with ordering by key deliver messages with the same key in order')
    .option('--endpoint <ENDPOINT>', 'deliver to this endpoint alone, by id or uid, even if its filters do not match')
    .option('--raw', 'send the payload unchanged; it need not be JSON')
    .option('--content-type <TYPE>', 'content type of a raw payload (default: application/octet-stream)')
}

function envelopeOf(session: Session, eventType: string) {
  const { eventId, channel, tag, orderingKey, endpoint } = session.options as Query
  return {
    eventType,
    eventId,
    channels: channel,
    tags: tag,
    deliverAt: instantOption(session, 'deliverAt', 'ahead'),
    expiresAt: instantOption(session, 'expiresAt', 'ahead'),
    orderingKey,
    endpoint,
  }
}

/** The query of a raw message has the fields of the envelope in snake case. */
function queryOf(envelope: Query): Query {
  const snakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  return Object.fromEntries(Object.entries(envelope).map(([name, value]) => [snakeCase(name), value]))
}

/** The fields as JSON with the bytes of the payload, which are never parsed. */
export function withPayload(fields: object, payload: Buffer): Buffer {
  const head = JSON.stringify(fields).slice(0, -1)
  return Buffer.concat([Buffer.from(`${head},"payload":`), payload, Buffer.from('}')])
}

/** Reads a payload from the operand, `@FILE`, or standard input. */
export async function readPayload({ terminal, options }: Session, given: string | undefined): Promise<Buffer> {
  const payload = await bytesOf()
  if (payload.length === 0 && options.raw !== true) {
    throw new CommandError('The payload is empty. The smallest JSON object is {}.', exitCode.misused)
  }
  if (options.raw !== true) assertJson(payload)
  return payload

  async function bytesOf(): Promise<Buffer> {
    if (given === undefined || given === inputSign) {
      if (given === undefined && terminal.inputIsTyped) {
        throw new CommandError(`No payload. Give JSON, @FILE, or ${inputSign} for standard input.`, exitCode.misused)
      }
      return terminal.readInput()
    }
    if (!given.startsWith(fileSign)) return Buffer.from(given)
    return readNamedFile(terminal, given.slice(fileSign.length))
  }
}

/**
 * Refuses a payload that is not JSON, before it is put between the other fields: the server would count bytes from their
 * beginning, which the user never wrote, and a payload such as `1,"tags":["x"]` would add fields.
 */
function assertJson(payload: Buffer): void {
  try {
    new Scanner(0).scan(payload)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    throw new CommandError(error.message.replace(/^The (body|JSON text)/, 'The payload'), exitCode.misused)
  }
}

function describe({ terminal }: Session, app: string, { id }: Item): string {
  const hint = terminal.style('dim', `Check its status: sluice messages ${app} ${text(id)}`)
  return `Accepted as ${terminal.style('bold', text(id))}\n${hint}`
}
