import { Option } from 'commander'
import { ApiProblem } from '../../cli/client.ts'
import { option, type RemoteCommands, type Session } from '../../cli/command.ts'
import { addSettings, loadExisting } from '../../cli/run.ts'
import { text } from '../../cli/table.ts'
import { CommandError, exitCode, pause, toJson } from '../../cli/terminal.ts'
import type { Parts } from '../../compose/parts.ts'
import { apiRoot } from '../../domain/api.ts'
import type { StoreKind } from '../../domain/store-traits.ts'
import type { Terminal } from '../../runtime/process.ts'
import { duration } from '../../runtime/setting-kinds.ts'
import { SealError } from '../../store/vault.ts'
import { toTotalsOut } from '../why/schemas.ts'
import { type Diagnosis, diagnose, onlyFinding, type Trend, trendOf, type WaitingCount } from './diagnosis.ts'

/** A report as the API answers it, also when it was made here. */
interface Report extends Diagnosis {
  readonly waiting: { readonly total: number } | null
  readonly asOf: string
}

/** The exit code by severity. They differ from those of other commands, so that monitoring tells the severities apart. */
const exitCodes: Readonly<Record<Diagnosis['status'], number>> = { healthy: 0, warning: 1, critical: 2 }

const widest = 100

/** `sluice doctor`: says what is wrong with the system, with figures and the command that helps. */
export function addDoctor(commands: RemoteCommands): void {
  const command = commands
    .add('doctor', 'examine the whole system: findings with figures, and the commands that help', async (session) => {
      if (session.options.onStore !== true) return run(session, () => askServer(session))
      return onStore(session)
    })
    .option('--watch', 'repeat, and show whether the number of waiting deliveries falls')
    .addOption(option('--every <DURATION>', 'time between two looks', duration(1000, 3_600_000)).default(5000, '5s'))
    .addOption(option('--for <DURATION>', 'with --watch, end after this time', duration(1000, 86_400_000)))
    .addOption(
      new Option(
        '--on-store',
        'examine the store itself, without a server or a key: for a server that does not start',
      ).conflicts(['url', 'key']),
    )
  command.optionsGroup('With --on-store, the settings of the server:')
  addSettings(command, ['store', 'encryptionKey'])
  command.addHelpText(
    'after',
    `
Exit codes: 0 healthy, 1 warning, 2 critical.

Examples:
  sluice doctor                     what is wrong, and which command helps
  sluice doctor --watch             after the command: does the number of waiting deliveries fall?
  sluice doctor --json              for scripts: status, findings with code and evidence
  sluice doctor --on-store          when the server does not answer`,
  )
}

/** Prints a report, and with `--watch` one line per look; answers the exit code of the last report. */
async function run(session: Session, examine: () => Promise<Report>): Promise<number> {
  const { terminal, options, world } = session
  const { watch, every, for: limitMs } = options as { watch?: boolean; every: number; for?: number }
  let report = await examine()
  session.show(report, () => describe(terminal, report))
  if (watch !== true) return exitCodes[report.status]
  const stopped = terminal.stopRequested().then(() => true)
  if (!session.json) terminal.print('')
  const endAt = limitMs === undefined ? Number.POSITIVE_INFINITY : world.clock.steady() + limitMs
  while (world.clock.steady() < endAt) {
    if (await Promise.race([stopped, pause(world.clock, every)])) break
    const next = await examine()
    const before = readingOf(report)
    const after = readingOf(next)
    const trend = before && after && trendOf(before, after)
    if (!session.json && codesOf(next) !== codesOf(report)) terminal.print(`\n${describe(terminal, next)}\n`)
    printTrend(session, next, trend)
    report = next
    if (report.status === 'healthy' && after?.waiting === 0) break
  }
  return exitCodes[report.status]
}

async function askServer({ client, world }: Session): Promise<Report> {
  const asOf = new Date(world.clock.now()).toISOString()
  try {
    return (await client.get('/doctor')) as unknown as Report
  } catch (error) {
    if (!(error instanceof CommandError) || error.exitCode !== exitCode.unavailable) throw error
    // The server checks keys in its store, and cannot without it.
    if (error instanceof ApiProblem && error.status !== 503) throw error
    const found =
      error instanceof ApiProblem
        ? onlyFinding('store_down', {
            sentence: `The server answers, but cannot reach its store: ${error.message}`,
            evidence: { url: client.url },
            command: `curl -s ${client.url}${apiRoot}/health`,
          })
        : onlyFinding('server_unreachable', {
            sentence: error.message,
            evidence: { url: client.url },
            command: 'sluice doctor --on-store',
          })
    return { ...found, waiting: null, asOf }
  }
}

/** Examines the store of the settings, beside a server that runs on it or without one. */
async function onStore(session: Session): Promise<number> {
  const { world, options } = session
  const config = loadExisting(world, options)
  const asOf = () => new Date(world.clock.now()).toISOString()
  let parts: Parts
  try {
    parts = await world.openParts(config, world.openLog(config), { role: 'guest' })
  } catch (error) {
    return run(session, async () => ({ ...unopened(error, config.store.kind), waiting: null, asOf: asOf() }))
  }
  try {
    const { doctor } = parts.services()
    return await run(session, async () => {
      const { at, waiting, ...found } = await doctor.examine()
      return { ...found, waiting: waiting && toTotalsOut(waiting), asOf: new Date(at).toISOString() }
    })
  } finally {
    await parts.store.close()
  }
}

/** The diagnosis of a store that does not open. */
function unopened(error: unknown, dialect: StoreKind): Diagnosis {
  if (!(error instanceof Error)) throw error
  const cause = error.cause instanceof Error && error instanceof CommandError ? error.cause : error
  const because = `${cause.message.charAt(0).toUpperCase()}${cause.message.slice(1)}`.replace(/\.?$/, '.')
  if (cause instanceof SealError) {
    return onlyFinding('encryption_key_missing', {
      sentence: `The store does not open: ${because}`,
      evidence: { dialect },
      command: 'SLUICE_ENCRYPTION_KEY=id:BASE64 sluice serve',
    })
  }
  return diagnose({ dialect, trouble: because })
}

function describe(terminal: Terminal, { status, summary, findings, more }: Report): string {
  const colour = ({ healthy: 'green', warning: 'yellow', critical: 'red' } as const)[status]
  const lines = [terminal.style(['bold', colour], wrapped(terminal, summary, ''))]
  for (const { severity, code, sentence, command } of findings) {
    const label = terminal.style(['bold', severity === 'critical' ? 'red' : 'yellow'], severity.padEnd(8))
    lines.push('', `${label}  ${terminal.style('bold', code)}`, wrapped(terminal, text(sentence), '  '))
    lines.push(`  ${terminal.style('dim', '$')} ${terminal.style('cyan', text(command))}`)
  }
  if (more > 0) lines.push('', terminal.style('dim', `… and ${more} more of the same kinds.`))
  return lines.join('\n')
}

function printTrend({ terminal, json }: Session, report: Report, trend: Trend | undefined): void {
  if (json) return terminal.print(toJson({ ...report, trend: trend ?? null }))
  const time = terminal.style('dim', report.asOf.slice(11, 19))
  if (trend === undefined) return terminal.print(`${time}  ${report.summary}`)
  const colour = ({ empty: 'green', falls: 'green', steady: 'yellow', grows: 'red' } as const)[trend.direction]
  terminal.print(`${time}  ${terminal.style(colour, trend.sentence)}`)
}

function readingOf({ waiting, asOf }: Report): WaitingCount | undefined {
  return waiting === null ? undefined : { at: Date.parse(asOf), waiting: waiting.total }
}

/** The findings by what they are about: their figures change with every look. */
function codesOf({ findings }: Report): string {
  return findings.map(({ code, app, endpoint }) => [code, app, endpoint].join(' ')).join('\n')
}

/** The text in lines that fit the terminal, each indented. Words stay whole. */
function wrapped({ columns = widest }: Terminal, text: string, indent: string): string {
  const width = Math.max(20, Math.min(widest, columns) - indent.length)
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].map((each) => `${indent}${each}`).join('\n')
}
