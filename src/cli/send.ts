import { type Item, pathOf } from './client.ts'
import { instantText, type RemoteCommands, repeated, type Session } from './command.ts'
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
        const raw = session.options.raw === true
        const message = raw
          ? await sendRaw(session, app, eventType, payload)
          : await sendJson(session, app, eventType, payload)
        session.show(message, (item) => describe(session, app, item))
      },
    )
    .option('--event-id <ID>', 'your own id for it; a second message with the same id is refused')
    .addOption(repeated('--channel <CHANNEL>', 'channel; may be repeated'))
    .addOption(repeated('--tag <TAG>', 'tag to find it by; may be repeated'))
    .option('--deliver-at <INSTANT>', 'deliver not before, such as 2026-11-15T10:00:00Z, or 2h for in two hours')
    .option('--expires-at <INSTANT>', 'discard if undelivered by then, such as 2026-11-15T10:00:00Z, or 2h')
    .option('--ordering-key <KEY>', 'endpoints with ordering by key deliver messages with the same key in order')
    .option('--raw', 'send the payload unchanged; it need not be JSON')
    .option('--content-type <TYPE>', 'content type of a raw payload (default: application/octet-stream)')
}

async function sendJson(session: Session, app: string, eventType: string, payload: Buffer): Promise<Item> {
  const { client, options } = session
  const { eventId, channel: channels, tag: tags } = options
  const envelope = {
    eventType,
    eventId,
    channels,
    tags,
    deliverAt: instantOf(session, 'deliverAt'),
    expiresAt: instantOf(session, 'expiresAt'),
    orderingKey: options.orderingKey,
  }
  const head = Buffer.from(`${JSON.stringify(envelope).slice(0, -1)},"payload":`)
  const body = Buffer.concat([head, payload, Buffer.from('}')])
  return client.post(pathOf('app', app, 'msg'), { query: { with_content: false }, body })
}

function sendRaw(session: Session, app: string, eventType: string, body: Buffer): Promise<Item> {
  const { client, options } = session
  const query = {
    event_type: eventType,
    event_id: options.eventId as string | undefined,
    channels: options.channel as string[] | undefined,
    tags: options.tag as string[] | undefined,
    deliver_at: instantOf(session, 'deliverAt'),
    expires_at: instantOf(session, 'expiresAt'),
    ordering_key: options.orderingKey as string | undefined,
  }
  const contentType = (options.contentType as string | undefined) ?? 'application/octet-stream'
  return client.post(pathOf('app', app, 'msg', 'raw'), { query, body, contentType })
}

function instantOf({ options, world }: Session, name: 'deliverAt' | 'expiresAt'): string | undefined {
  const given = options[name]
  return given === undefined ? undefined : instantText(String(given), world.clock.now(), 'ahead')
}

/** Reads a payload from the operand, `@FILE`, or standard input. */
export async function readPayload({ terminal, options }: Session, given: string | undefined): Promise<Buffer> {
  const payload = await bytesOf()
  if (payload.length === 0 && options.raw !== true) {
    throw new CommandError('The payload is empty. The smallest JSON object is {}.', exitCode.misused)
  }
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

function describe({ terminal }: Session, app: string, { id }: Item): string {
  const hint = terminal.style('dim', `Check its status: sluice messages ${app} ${text(id)}`)
  return `Accepted as ${terminal.style('bold', text(id))}\n${hint}`
}
