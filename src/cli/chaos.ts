import type { Command as Commander } from 'commander'
import type { Clock, Random } from '../domain/clock.ts'
import { count, duration, formatAddress, type SettingKind, WrongValue } from '../runtime/setting-kinds.ts'
import { type Options, option, type World } from './command.ts'
import { type Arrived, openReceiver } from './listen.ts'
import { counted } from './table.ts'
import { exitCode, toJson } from './terminal.ts'

/** The behaviours of the misbehaving receiver. */
export const behaviours = ['success', 'error', 'limit', 'slow', 'hang', 'drip', 'reset'] as const
export type Behaviour = (typeof behaviours)[number]
export type Shares = Readonly<Record<Behaviour, number>>

const meanings: Readonly<Record<Behaviour, string>> = {
  success: 'answered with 200',
  error: 'answered with --error-status',
  limit: 'answered with 429 and --retry-after',
  slow: 'answered with 200 after --slow-for',
  hang: 'never answered',
  drip: 'answered with 200, one byte every 250 ms',
  reset: 'whose connection is reset',
}
/** Default shares: mostly success, and some of each behaviour. */
const usualShares: Shares = { success: 0.6, error: 0.2, limit: 0.08, slow: 0, hang: 0.04, drip: 0.04, reset: 0.04 }
const dripMs = 250
const hour = 3_600_000

const share: SettingKind<number> = {
  placeholder: 'SHARE',
  parse(raw) {
    const value = Number(raw)
    if (!/^\d*\.?\d+$/.test(String(raw)) || !(value <= 1_000_000))
      throw new WrongValue('a number from 0 on, such as 0.2')
    return value
  },
  show: String,
}

/** `sluice chaos`: a receiver that misbehaves by share or by path. The same seed gives the same sequence. */
export function addChaos(program: Commander, world: World, finish: (code: number) => void): void {
  const command = program
    .command('chaos')
    .description('run a misbehaving test receiver: errors, 429, hangs, drips, resets')
  command.action(async () => finish(await run(world, command.opts())))
  for (const behaviour of behaviours) {
    command.addOption(option(`--${behaviour} <SHARE>`, `share of requests ${meanings[behaviour]}`, share))
  }
  command
    .addOption(option('--port <PORT>', 'port to listen on; 0 = any free port', count(0, 65_535)).default(9001))
    .option('--host <HOST>', 'address to listen on', '127.0.0.1')
    .option('--seed <TEXT>', 'repeat a sequence (default: a random seed, which is printed)')
    .addOption(option('--error-status <STATUS>', 'HTTP status of errors', count(300, 599)).default(500))
    .addOption(option('--retry-after <SECONDS>', 'Retry-After of a 429', count(0, 86_400)).default(5))
    .addOption(option('--slow-for <DURATION>', 'time before a slow 200', duration(0, hour)).default(6000, '6s'))
    .option('--quiet', 'print no line per request')
    .option('--json', 'print JSON lines')
    .addHelpText(
      'after',
      `\nShares are weights: --success 3 --error 1 fails every fourth request.\nDefault: ${showShares(usualShares)}.\nA path chooses the behaviour: ${behaviours.map((name) => `/${name}`).join(' ')} /error/STATUS`,
    )
}

async function run({ terminal, clock, randomText }: World, options: Options): Promise<number> {
  const stopRequested = terminal.stopRequested()
  const json = options.json === true
  const shares = sharesOf(options)
  const seed = (options.seed as string | undefined) ?? randomText(6)
  const random = seededRandom(seed)
  const done: Record<Behaviour, number> = { success: 0, error: 0, limit: 0, slow: 0, hang: 0, drip: 0, reset: 0 }
  const receive = (arrived: Arrived) => {
    const choice = choose(arrived.request.url ?? '/', shares, random)
    const status = choice.status ?? (options.errorStatus as number)
    done[choice.behaviour]++
    const [retryAfterSeconds, slowMs] = [options.retryAfter as number, options.slowFor as number]
    behave(choice.behaviour, arrived, { status, retryAfterSeconds, slowMs, clock })
    if (options.quiet === true) return
    const { 'webhook-id': id = '' } = arrived.request.headers
    const at = new Date(clock.now()).toISOString()
    if (json) terminal.print(toJson({ at, id, path: arrived.request.url, behaviour: choice.behaviour }))
    else {
      const colour = choice.behaviour === 'success' ? 'green' : choice.behaviour === 'limit' ? 'yellow' : 'red'
      const word = terminal.style(colour, choice.behaviour.padEnd(7))
      terminal.print(`${terminal.style('dim', at.slice(11, 24))}  ${word}  ${String(id)}  ${arrived.request.url}`)
    }
  }
  const address = { host: options.host as string, port: options.port as number }
  const { server, address: bound } = await openReceiver(address, receive)
  const url = `http://${formatAddress(bound)}/`
  if (json) terminal.print(toJson({ listening: url, seed, shares }))
  else {
    terminal.print(`Misbehaving on ${terminal.style('bold', url)}`)
    terminal.print(`  ${terminal.style('dim', 'Shares')}  ${showShares(shares)}`)
    terminal.print(`  ${terminal.style('dim', 'Seed  ')}  ${seed}`)
    terminal.print(terminal.style('dim', 'Ctrl-C ends.\n'))
  }
  await stopRequested
  server.closeAllConnections()
  server.close()
  const requests = behaviours.reduce((sum, name) => sum + done[name], 0)
  if (json) terminal.print(toJson({ requests, ...done }))
  else
    terminal.print(`${counted(requests, 'request')}: ${behaviours.map((name) => `${done[name]} ${name}`).join(', ')}.`)
  return exitCode.ok
}

/** The behaviour that the path names, else one drawn by the shares. Each such request draws once, so a seed fixes the sequence. */
export function choose(
  path: string,
  shares: Shares,
  random: Random,
): { readonly behaviour: Behaviour; readonly status?: number } {
  const [, word = '', status] = /^\/([a-z]+)(?:\/([3-5]\d\d))?\/?(?:\?|$)/.exec(path) ?? []
  const named = behaviours.find((behaviour) => behaviour === word)
  if (named !== undefined)
    return status === undefined ? { behaviour: named } : { behaviour: named, status: Number(status) }
  let at = random() * behaviours.reduce((sum, name) => sum + shares[name], 0)
  for (const behaviour of behaviours) {
    at -= shares[behaviour]
    if (at < 0) return { behaviour }
  }
  return { behaviour: 'success' }
}

interface Manner {
  readonly status: number
  readonly retryAfterSeconds: number
  readonly slowMs: number
  readonly clock: Clock
}

/** Does to a request what its behaviour says. */
export function behave(
  behaviour: Behaviour,
  { request, response }: Arrived,
  { status, retryAfterSeconds, slowMs, clock }: Manner,
): void {
  if (behaviour === 'success') response.end('ok\n')
  else if (behaviour === 'error') response.writeHead(status).end(`chaos: ${status}\n`)
  else if (behaviour === 'limit') response.writeHead(429, { 'retry-after': String(retryAfterSeconds) }).end()
  else if (behaviour === 'reset') request.socket.resetAndDestroy()
  else if (behaviour === 'slow') {
    const cancel = clock.after(slowMs, () => response.end('ok\n'))
    response.on('close', cancel)
  } else if (behaviour === 'drip') drip(request.socket, clock)
}

/** Sends the whole response byte by byte: the status is complete after four seconds, the end comes after nineteen. */
function drip(socket: Arrived['request']['socket'], clock: Clock): void {
  const bytes = Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nok\n')
  let at = 0
  const next = () => {
    if (socket.destroyed) return
    socket.write(bytes.subarray(at, ++at))
    if (at < bytes.length) clock.after(dripMs, next)
    else socket.end()
  }
  next()
}

function sharesOf(options: Options): Shares {
  if (behaviours.every((name) => options[name] === undefined)) return usualShares
  return Object.fromEntries(
    behaviours.map((name) => [name, (options[name] as number | undefined) ?? 0]),
  ) as unknown as Shares
}

function showShares(shares: Shares): string {
  const sum = behaviours.reduce((total, name) => total + shares[name], 0) || 1
  return behaviours
    .filter((name) => shares[name] > 0)
    .map((name) => `${name} ${Math.round((shares[name] / sum) * 100)} %`)
    .join(', ')
}

/** A reproducible sequence of numbers from 0 to 1: mulberry32 over an FNV-1a hash of the seed. */
export function seededRandom(seed: string): Random {
  let state = 0x811c9dc5
  for (const sign of seed) state = Math.imul(state ^ (sign.codePointAt(0) as number), 0x01000193)
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
