import type { Item } from '../../cli/client.ts'
import { option, type RemoteCommands, type Session } from '../../cli/command.ts'
import {
  ago,
  type Column,
  counted,
  grouped,
  instant,
  nameOf,
  shorten,
  table,
  text,
  waitingText,
  wordOf,
} from '../../cli/table.ts'
import { CommandError, toJson } from '../../cli/terminal.ts'
import { age, latency } from '../../domain/phrases.ts'
import type { Screen, Terminal } from '../../runtime/process.ts'
import { duration } from '../../runtime/setting-kinds.ts'

/** The sorts of endpoints, in the order in which the key changes them. */
const sorts = ['waiting', 'oldest', 'failing'] as const
type Sort = (typeof sorts)[number]

/** The endpoints that the API lists at most. */
const listedEndpoints = 100

/** One look at the server. */
interface Look {
  readonly at: number
  readonly history: { readonly since: string; readonly stepSeconds: number; readonly series: Series }
  readonly waiting: Item
  /** Since when the oldest of all waiting deliveries has been waiting; null without one. */
  readonly oldestSince: unknown
  readonly endpoints: readonly Item[]
  readonly failing: readonly Item[]
  readonly workers: readonly Item[]
}

type Rated = 'accepted' | 'delivered' | 'failed' | 'dead'

interface Series extends Readonly<Record<Rated, readonly number[]>> {
  readonly waitMs: { readonly p95: readonly (number | null)[] }
  readonly latencyMs: { readonly p95: readonly (number | null)[] }
}

/** The operator's choices, made with keys. */
export interface Choices {
  readonly sort: Sort
  readonly filter: string
  readonly isTyping: boolean
  readonly isPaused: boolean
}

/** `sluice top`: a live view of rates, endpoints, circuits and workers. */
export function addTop(commands: RemoteCommands): void {
  commands
    .add('top', 'watch the server live: rates, waiting, worst endpoints, circuits, workers', (session) => run(session))
    .addOption(option('--every <DURATION>', 'time between two looks', duration(500, 60_000)).default(2000, '2s'))
    .addHelpText(
      'after',
      `
Keys: s sort (waiting, oldest, failing) · / filter · Esc clear the filter · p pause · q quit

Without a terminal it prints one look and ends; --json prints it as JSON.`,
    )
}

async function run(session: Session): Promise<void> {
  const { terminal, world, options } = session
  let choices: Choices = { sort: 'waiting', filter: '', isTyping: false, isPaused: false }
  let [last, problem]: [Look | undefined, string | undefined] = [undefined, undefined]
  let next = Promise.withResolvers<'quit' | 'look'>()
  const draw = () => {
    if (screen !== undefined) screen.draw(fitted(terminal, screen, last, choices, problem))
  }
  const onKey = (key: string) => {
    const after = choose(choices, key)
    if (after === 'quit') return next.resolve('quit')
    if (after.sort !== choices.sort) next.resolve('look')
    choices = after
    draw()
  }
  const screen = session.json ? undefined : terminal.openScreen(onKey, draw)
  if (screen === undefined) {
    const seen = await look(session, choices.sort)
    return terminal.print(session.json ? toJson(seen, 2) : lines(terminal, seen, choices, 10).join('\n'))
  }
  try {
    void terminal.stopRequested().then(() => next.resolve('quit'))
    for (;;) {
      if (!choices.isPaused || last === undefined) {
        try {
          last = await look(session, choices.sort)
          problem = undefined
        } catch (error) {
          // A server that restarts is asked again; a wrong key or address on the first look ends the command.
          if (!(error instanceof CommandError) || last === undefined) throw error
          problem = error.message
        }
      }
      draw()
      const cancel = world.clock.after(options.every as number, () => next.resolve('look'))
      const answer = await next.promise
      cancel()
      if (answer === 'quit') return
      next = Promise.withResolvers()
    }
  } finally {
    screen.close()
  }
}

/** The choices after a key. */
export function choose(choices: Choices, key: string): Choices | 'quit' {
  if (key === '\x03') return 'quit'
  if (choices.isTyping) {
    if (key === '\r' || key === '\n') return { ...choices, isTyping: false }
    if (key === '\x1b') return { ...choices, isTyping: false, filter: '' }
    if (key === '\x7f' || key === '\b') return { ...choices, filter: choices.filter.slice(0, -1) }
    return key >= ' ' && key.length === 1 ? { ...choices, filter: choices.filter + key } : choices
  }
  if (key === 'q') return 'quit'
  if (key === 'p' || key === ' ') return { ...choices, isPaused: !choices.isPaused }
  if (key === '/') return { ...choices, isTyping: true, filter: '' }
  if (key === '\x1b') return { ...choices, filter: '' }
  if (key !== 's') return choices
  return { ...choices, sort: sorts[(sorts.indexOf(choices.sort) + 1) % sorts.length] as Sort }
}

async function look({ client, world }: Session, sort: Sort): Promise<Look> {
  const [history, why, endpoints, failing, workers] = await Promise.all([
    client.get('/history', { range: '15m' }),
    client.get('/why', { sort: 'age', limit: 1 }),
    client.get('/endpoint', { sort, limit: listedEndpoints }),
    client.get('/endpoint', { sort: 'failing', limit: listedEndpoints }),
    client.get('/worker'),
  ])
  return {
    at: world.clock.now(),
    history: history as unknown as Look['history'],
    waiting: why.waiting as Item,
    oldestSince: (why.data as Item[])[0]?.oldestSince ?? null,
    endpoints: endpoints.data as Item[],
    failing: failing.data as Item[],
    workers: workers.data as Item[],
  }
}

/** The lines of the screen: as many endpoints as fit, and the keys at the bottom. */
function fitted(
  terminal: Terminal,
  { rows }: Screen,
  seen: Look | undefined,
  choices: Choices,
  problem: string | undefined,
): string[] {
  const { filter, isTyping, isPaused, sort } = choices
  const wide = terminal.columns ?? 80
  const keys = isTyping
    ? `filter: ${filter}▏  Enter keep · Esc clear`
    : `s sort: ${sort} · / filter${filter === '' ? '' : `: ${filter}`} · p ${isPaused ? 'go on' : 'pause'} · q quit`
  const state = problem === undefined ? (isPaused ? 'PAUSED  ' : '') : shorten(problem, Math.floor(wide / 2))
  const foot = `${terminal.style(problem === undefined ? 'yellow' : 'red', state)}${problem ? '  ' : ''}`
  const last = `${foot}${terminal.style('dim', shorten(keys, Math.max(0, wide - state.length - 3)))}`
  if (seen === undefined) return ['', last]
  const fixed = lines(terminal, seen, choices, 0).length
  const body = lines(terminal, seen, choices, Math.max(1, rows - fixed - 2)).slice(0, rows - 1)
  return [...body, ...Array.from({ length: Math.max(0, rows - 1 - body.length) }, () => ''), last]
}

/** A look as lines, with up to so many endpoints. */
export function lines(terminal: Terminal, seen: Look, choices: Choices, room: number): string[] {
  const { workers, waiting, failing } = seen
  const dim = (text: string) => terminal.style('dim', text)
  const rate = (name: Rated) => `${perSecond(seen, name)}/s`
  const open = failing.filter(({ state }) => state === 'circuit_open').length
  const cells: [name: string, value: string, colour?: 'red' | undefined][] = [
    ['in', rate('accepted')],
    ['out', rate('delivered')],
    ['failed', rate('failed')],
    ['dead', rate('dead')],
    ['waiting', waitingText(waiting)],
    ['oldest', sinceOf(seen.oldestSince, seen.at)],
    ['p95 wait', milliseconds(latest(seen.history.series.waitMs.p95))],
    ['p95 attempt', milliseconds(latest(seen.history.series.latencyMs.p95))],
    ['busy', busyOf(workers)],
    ['circuits open', `${open}${failing.length === listedEndpoints ? '+' : ''}`, open > 0 ? 'red' : undefined],
  ]
  const shown = seen.endpoints.filter((endpoint) => matches(endpoint, choices.filter)).slice(0, room)
  return [
    ...flowed(
      cells.map(([name, value, colour]) => ({
        width: name.length + 1 + value.length,
        styled: `${dim(name)} ${terminal.style(colour === undefined ? 'bold' : ['bold', colour], value)}`,
      })),
      terminal.columns ?? 100,
    ),
    '',
    ...workerLines(terminal, workers),
    '',
    ...(shown.length === 0 && room > 0
      ? [dim(choices.filter === '' ? 'No endpoint needs attention.' : `No endpoint matches ${choices.filter}.`)]
      : endpointTable(terminal, shown, seen.at)),
  ]
}

/** Cells in as few lines as the width allows. */
function flowed(cells: readonly { readonly width: number; readonly styled: string }[], columns: number): string[] {
  const found: string[] = []
  let [line, width] = ['', 0]
  for (const cell of cells) {
    if (width > 0 && width + 3 + cell.width > columns) {
      found.push(line)
      line = ''
      width = 0
    }
    line += width === 0 ? cell.styled : `   ${cell.styled}`
    width += width === 0 ? cell.width : cell.width + 3
  }
  return [...found, line]
}

const workerState: Column<Item> = {
  title: 'STATE',
  cell: ({ state, isLeader }) => (isLeader === true ? `${text(state)}, leader` : text(state)),
  colour: ({ state }) => (state === 'alive' ? 'green' : 'red'),
}

const listedWorkers = 4

function workerLines(terminal: Terminal, workers: readonly Item[]): string[] {
  if (workers.length === 0) return [terminal.style('red', 'No worker is alive: nothing is delivered.')]
  const rows = table(
    terminal,
    [
      { title: 'WORKER', cell: 'name', flexible: true },
      { title: 'LANES', cell: ({ lanes }) => grouped(lanes), align: 'right' },
      { title: 'IN FLIGHT', cell: inFlightOf, align: 'right' },
      workerState,
    ],
    workers.slice(0, listedWorkers),
  ).split('\n')
  if (workers.length <= listedWorkers) return rows
  return [...rows, terminal.style('dim', `… and ${counted(workers.length - listedWorkers, 'more worker')}`)]
}

function endpointTable(terminal: Terminal, endpoints: readonly Item[], now: number): string[] {
  return table(
    terminal,
    [
      { title: 'ENDPOINT', cell: (each) => shorten(`${text(each.appUid ?? each.appId)}/${nameOf(each)}`, 28) },
      { title: 'WAITING', cell: ({ waiting }) => waitingText(waiting as Item), align: 'right' },
      { title: 'OLDEST', cell: ({ oldestSince }) => sinceOf(oldestSince, now), align: 'right' },
      { title: 'STATE', cell: ({ condition }) => wordOf(condition), colour: ({ condition }) => colourOf(condition) },
      { title: 'WHY', cell: 'detail', flexible: true },
    ],
    endpoints,
  ).split('\n')
}

function colourOf(condition: unknown) {
  if (condition === 'keeping_up') return 'green'
  return condition === 'falling_behind' || condition === 'blocked' ? 'red' : 'yellow'
}

function matches({ appId, appUid, id, uid, url, condition, state, reason, detail }: Item, filter: string): boolean {
  const words = [appId, appUid, id, uid, url, wordOf(condition), state, reason, detail]
    .map(text)
    .join(' ')
    .toLowerCase()
  return words.includes(filter.toLowerCase())
}

function inFlightOf({ inFlight, inFlightLimit }: Item): string {
  return inFlightLimit == null ? text(inFlight) : `${text(inFlight)} of ${grouped(inFlightLimit)}`
}

/** Attempts under way against the limits of all workers. */
function busyOf(workers: readonly Item[]): string {
  const limit = workers.reduce((sum, { inFlightLimit }) => sum + Number(inFlightLimit ?? 0), 0)
  const inFlight = workers.reduce((sum, worker) => sum + Number(worker.inFlight ?? 0), 0)
  return limit === 0 ? '–' : `${Math.round((100 * inFlight) / limit)} %`
}

/** The rate over the minute before and the present one so far. */
function perSecond({ at, history: { since, stepSeconds, series } }: Look, name: Rated): string {
  const counts = series[name]
  const elapsed = (at - Date.parse(since)) / 1000 - stepSeconds * (counts.length - 2)
  const rate = ((counts.at(-1) ?? 0) + (counts.at(-2) ?? 0)) / Math.max(1, elapsed)
  if (rate > 0 && rate < 0.05) return '<0.1'
  return rate >= 100 || rate === 0 ? grouped(Math.round(rate)) : rate.toFixed(1)
}

function latest(values: readonly (number | null)[]): number | null {
  return values.at(-1) ?? values.at(-2) ?? null
}

function milliseconds(ms: number | null): string {
  return ms === null ? '–' : latency(ms)
}

function sinceOf(value: unknown, now: number): string {
  return typeof value === 'string' ? age(Math.max(0, now - Date.parse(value))) : '–'
}

/** `sluice workers`: the processes that deliver. */
export function addWorkers(commands: RemoteCommands): void {
  const summary = 'list the workers: version, host, regions, lanes, attempts under way, last sign of life'
  commands
    .add('workers', summary, async ({ client, terminal, world, options, show }) => {
      const now = world.clock.now()
      const columns: readonly Column<Item>[] = [
        { title: 'WORKER', cell: 'id', align: 'right' },
        { title: 'NAME', cell: 'name', flexible: true },
        { title: 'VERSION', cell: 'version' },
        { title: 'REGIONS', cell: ({ regions }) => (Array.isArray(regions) ? regions.join(',') : 'all') },
        { title: 'STARTED', cell: ({ startedAt }) => instant(startedAt) },
        { title: 'LAST SEEN', cell: ({ lastSeenAt }) => ago(lastSeenAt, now) },
        { title: 'LANES', cell: 'lanes', align: 'right' },
        { title: 'IN FLIGHT', cell: 'inFlight', align: 'right' },
        workerState,
      ]
      const empty = 'No worker is alive: start `sluice serve` or `sluice worker`.'
      show(await client.get('/worker', { ended: options.all === true }), ({ data }) =>
        table(terminal, columns, data as Item[], empty),
      )
    })
    .option('--all', 'also those that left or died in the last week')
}
