import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Item, pathOf } from '../../cli/client.ts'
import { option, type RemoteCommands, type Session } from '../../cli/command.ts'
import { ago, counted, facts, grouped, instant, text } from '../../cli/table.ts'
import { CommandError, exitCode, pause, progressLine, toJson, withProgress, writeOutput } from '../../cli/terminal.ts'
import { choice } from '../../runtime/setting-kinds.ts'
import { isSigned, type Signature } from '../audit/store.ts'
import { erasurePurpose, waitingPolicies } from './rules.ts'

const askMs = 250

/** `sluice erase`: erases a data subject, and shows the reports. */
export function addErase(commands: RemoteCommands): void {
  const erase = commands.addConfirmed(
    'erase',
    'erase a person from the messages of an application',
    ({ options }) => {
      const { app } = named(options)
      const rest = options.waiting === 'deliver-without' ? 'are sent without the values' : 'are cancelled'
      return `Erase every payload of ${app} that names this person, for good? Deliveries that wait ${rest}.`
    },
    async (session) => {
      const { app, subject } = named(session.options)
      const body = { subject, waiting: session.options.waiting }
      const started = await session.client.post(pathOf('app', app, 'subject', 'erase'), { body })
      const id = text(started.id)
      if (session.options.wait === false) return session.show(started, () => `Started erasure ${id}.`)
      session.show(await follow(session, app, id), (item) => describe(session, app, item))
    },
  )
  erase
    .option('--app <APP>', 'the application')
    .option('--subject <SUBJECT>', 'the value that names the person in payloads')
    .addOption(
      option(
        '--waiting <POLICY>',
        'what becomes of deliveries that wait: cancel or deliver-without',
        choice(waitingPolicies),
      ),
    )
    .option('--no-wait', 'do not wait until it is done')
  const below = commands.below(erase)

  below.list('list <app>', 'list erasures, newest first', ([app], { world }) => ({
    path: pathOf('app', app, 'erasure'),
    empty: 'No erasures.',
    columns: [
      { title: 'CREATED', cell: ({ createdAt }) => ago(createdAt, world.clock.now()) },
      { title: 'ERASURE', cell: 'id' },
      { title: 'SUBJECT', cell: 'subject' },
      { title: 'STATE', cell: 'state' },
      { title: 'DONE', cell: doneOf, flexible: true },
    ],
  }))

  below.add('status <app> <erasure>', 'show how far an erasure is', async (session, [app, id]) => {
    session.show(await session.client.get(pathOf('app', app, 'erasure', id)), (item) => describe(session, app, item))
  })

  below.add('report <app> <erasure>', 'print the signed report of an erasure as JSON', async (session, [app, id]) => {
    const { report, signature, state } = await session.client.get(pathOf('app', app, 'erasure', id))
    if (report == null)
      throw new CommandError(`The erasure ${id} has no report: it is ${text(state)}.`, exitCode.failed)
    session.terminal.print(toJson({ report, signature }, 2))
  })

  below.add(
    'verify <file>',
    'verify the signature of a report, and that this server signed it',
    async (session, [file]) => {
      const { report, signature } = readReport(resolve(session.terminal.directory, file), file)
      if (!isSigned(erasurePurpose, JSON.stringify(report), signature)) {
        const message = `${file} was changed, or its signature is not that of the key it names.`
        throw new CommandError(message, exitCode.failed)
      }
      const { data } = (await session.client.get('/signing-key')) as unknown as { data: Item[] }
      if (!data.some(({ publicKey }) => publicKey === signature.publicKey)) {
        const message = `${file} was signed with the key ${signature.keyId}, which is not this server's.`
        throw new CommandError(message, exitCode.failed)
      }
      session.show(
        { valid: true, keyId: signature.keyId },
        () => `The report is as this server signed it (key ${signature.keyId}).`,
      )
    },
  )
}

/** `sluice subject`: the stored data of a person. */
export function addSubject(commands: RemoteCommands): void {
  const subject = commands.group('subject', 'data subjects: export everything about a person')
  subject
    .add('export', 'write everything about a person as JSON lines', async (session) => {
      const { client, options, terminal } = session
      const { app, subject } = named(options)
      const body = { subject, after: options.after }
      const lines = client.stream(pathOf('app', app, 'subject', 'export'), {}, body)
      const name = options.output as string | undefined
      let end = ''
      async function* ending(): AsyncGenerator<Uint8Array> {
        for await (const chunk of lines) {
          end = (end + Buffer.from(chunk).toString('latin1')).slice(-200)
          yield chunk
        }
      }
      await writeOutput(terminal, name, ending())
      const [, count] = /"type":"end","messages":(\d+)/.exec(end) ?? []
      if (count === undefined) {
        const message = 'The export was cut off: continue with --after and the last message.'
        throw new CommandError(message, exitCode.unavailable)
      }
      if (name !== undefined)
        session.show(
          { messages: Number(count), file: name },
          () => `${counted(Number(count), 'message')} written to ${name}.`,
        )
    })
    .option('--app <APP>', 'the application')
    .option('--subject <SUBJECT>', 'the value that names the person in payloads')
    .option('--after <MESSAGE>', 'continue behind this message')
    .option('--output <FILE>', 'file to write (default: standard output)')
}

/** The application and the person that a command is about. */
function named({ app, subject }: Session['options']): { app: string; subject: string } {
  if (typeof app === 'string' && typeof subject === 'string') return { app, subject }
  throw new CommandError('Give the application with --app and the person with --subject.', exitCode.misused)
}

/** Waits for the end of an erasure and shows its progress. */
async function follow({ client, terminal, world }: Session, app: string, id: string): Promise<Item> {
  const ended = await withProgress(terminal, async (show) => {
    for (;;) {
      const erasure = await client.get(pathOf('app', app, 'erasure', id))
      if (erasure.state !== 'running' && erasure.state !== 'paused') return erasure
      show(progressLine('Erasing', Number(erasure.scanned), undefined))
      await pause(world.clock, askMs)
    }
  })
  if (ended.state === 'finished') return ended
  throw new CommandError(
    `The erasure ${id} has ${text(ended.state)}: ${text(ended.error ?? doneOf(ended))}.`,
    exitCode.failed,
  )
}

function doneOf({ scanned, erased }: Item): string {
  const { messages = 0, rewritten = 0, cancelled = 0 } = (erased ?? {}) as Readonly<Record<string, number>>
  const parts = [`${grouped(Number(scanned))} scanned`, `${grouped(messages)} erased`]
  if (rewritten > 0) parts.push(`${grouped(rewritten)} rewritten`)
  if (cancelled > 0) parts.push(`${grouped(cancelled)} deliveries cancelled`)
  return parts.join(', ')
}

function describe({ terminal }: Session, app: string, item: Item): string {
  const erased = (item.erased ?? {}) as Readonly<Record<string, number>>
  const report = (item.report ?? undefined) as Item | undefined
  const left = (report?.left ?? {}) as { deadLetterFile?: { lines: number }; schedules?: string[] }
  return facts(terminal, [
    ['erasure', text(item.id)],
    ['subject', `${text(item.subject)} (keyed hash)`],
    ['state', text(item.state)],
    ['waiting deliveries', text(item.waiting)],
    ['requested', `${instant(item.createdAt)} by ${text(item.requestedBy)}`],
    ['messages erased', grouped(erased.messages ?? 0)],
    ['messages rewritten', grouped(erased.rewritten ?? 0)],
    ['deliveries cancelled', grouped(erased.cancelled ?? 0)],
    ['deliveries without', grouped(erased.without ?? 0)],
    ['answers erased', grouped((erased.attempts ?? 0) + (erased.deadLetters ?? 0))],
    ['covers', report === undefined ? '–' : `messages accepted before ${instant(report.until)}`],
    ['lines in dead-letter files', left.deadLetterFile === undefined ? '–' : grouped(left.deadLetterFile.lines)],
    ['schedules', left.schedules === undefined ? '–' : left.schedules.join(', ') || 'none'],
    ['error', item.error == null ? undefined : terminal.style('red', text(item.error))],
    ['report', report === undefined ? '–' : `sluice erase report ${app} ${text(item.id)}`],
  ])
}

function readReport(path: string, name: string): { report: unknown; signature: Signature } {
  try {
    const { report, signature } = JSON.parse(readFileSync(path, 'utf8'))
    if (typeof report === 'object' && typeof signature?.publicKey === 'string') return { report, signature }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== undefined) throw new CommandError(`Cannot read ${name}: ${code}.`, exitCode.failed, { cause: error })
    if (!(error instanceof SyntaxError)) throw error
  }
  throw new CommandError(`${name} is no report: write one with sluice erase report.`, exitCode.failed)
}
