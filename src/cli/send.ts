import { type Item, pathOf } from './client.ts'
import { CommandError, exitCode } from './outcome.ts'
import { readNamedFile } from './read-file.ts'
import { instantText, type RemoteCommands, repeated, type Session } from './remote.ts'
import { text } from './show.ts'

const inputSign = '-'
const fileSign = '@'

/** `sluice send`: publishes one message. The payload's bytes are sent as they are, never parsed and written anew. */
export function addSend(commands: RemoteCommands): void {
  commands
    .add(
      commands.program,
      'send <app> <event-type> [payload]',
      'publish a message; the payload is JSON, @FILE, or - (also left out) for standard input',
      async (session, [app = '', eventType = '', given]) => {
        const payload = await readPayload(session, given)
        const raw = session.options.raw === true
        const message = raw
          ? await sendRaw(session, app, eventType, payload)
          : await sendJson(session, app, eventType, payload)
        session.show(message, (item) => describe(session, app, item))
      },
    )
    .option('--event-id <ID>', 'your id for it, unique in the application: a second message with it is refused')
    .addOption(repeated('--channel <CHANNEL>', 'a channel it belongs to; may be repeated'))
    .addOption(repeated('--tag <TAG>', 'a tag to find it by; may be repeated'))
    .option('--deliver-at <INSTANT>', 'not before then, such as 2026-11-15T10:00:00Z, or 2h for in two hours')
    .option(
      '--expires-at <INSTANT>',
      'nobody wants it from then on, such as 2026-11-15T10:00:00Z, or 2h for in two hours',
    )
    .option('--ordering-key <KEY>', 'messages with the same one go one after the other where that order is kept')
    .option('--raw', 'send the payload as it is, whatever it is')
    .option('--content-type <TYPE>', 'what a raw payload is (default: application/octet-stream)')
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

/** A payload given as JSON, `@FILE`, or through standard input. */
export async function readPayload({ terminal, options }: Session, given: string | undefined): Promise<Buffer> {
  const payload = await bytesOf()
  if (payload.length === 0 && options.raw !== true) {
    throw new CommandError('The payload is empty; the least JSON object is {}.', exitCode.misused)
  }
  return payload

  async function bytesOf(): Promise<Buffer> {
    if (given === undefined || given === inputSign) {
      if (given === undefined && terminal.inputIsTyped) {
        throw new CommandError(`No payload: give JSON, @FILE, or ${inputSign} to type it.`, exitCode.misused)
      }
      return terminal.readInput()
    }
    if (!given.startsWith(fileSign)) return Buffer.from(given)
    return readNamedFile(terminal, given.slice(fileSign.length))
  }
}

function describe({ terminal }: Session, app: string, { id }: Item): string {
  const hint = terminal.style('dim', `What becomes of it: sluice messages ${app} ${text(id)}`)
  return `Accepted as ${terminal.style('bold', text(id))}\n${hint}`
}
