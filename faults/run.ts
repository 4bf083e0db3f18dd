import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { machineNow } from '../bench/machine-clock.ts'
import { eventually } from '../test/e2e/eventually.ts'
import { check, type Rule, type Violation } from './checker.ts'
import { type FaultKind, leaseMs, type Marks } from './fault-kind.ts'
import { type Endpoint, type Fault, type Histories, keepHistories } from './histories.ts'
import { type Listed, listAll } from './listing.ts'
import { type Flow, Load } from './load.ts'
import { PostgresWorld } from './postgres-world.ts'
import type { Manner } from './receiver.ts'
import { placeTemplate, SqliteWorld } from './sqlite-world.ts'
import type { StoreKind, Workshop, World } from './world.ts'

/** What is done to one world: so many rounds of a fault, with one seed. */
export interface Plan {
  readonly kind: FaultKind
  readonly store: StoreKind
  readonly seed: number
  readonly rounds: number
  /** Earlier cuts that are looked at before each fault, beside the one that goes on. */
  readonly earlierCuts?: number
  /** A fault of the program's own, which the checker must find. */
  readonly plant?: { readonly module?: string; begin?(world: World): Promise<void> | void } | undefined
  /** Where the raw histories go. */
  readonly keep?: string | undefined
}

export interface Tools extends Workshop {
  /** A SQLite file with all tables. */
  readonly template: string
}

export interface Outcome {
  readonly plan: Plan
  readonly histories: Histories
  readonly violations: readonly Violation[]
  /** Trouble that is no violation of a history: a store that is damaged, a program that does not come back. */
  readonly stuck: readonly string[]
}

type Subject = Endpoint & { readonly manner: Manner; readonly fields: object }

const retry = { waits: { kind: 'list', ms: Array.from({ length: 30 }, () => 150) }, jitter: 'none' }

/** Every kind of promise has an endpoint that would show it broken. */
const subjects: readonly Subject[] = [
  { app: 'plain', path: '/prompt', manner: 'prompt', fields: {} },
  { app: 'plain', path: '/slow', manner: 'slow', concurrency: 6, fields: { concurrency: 6 } },
  { app: 'plain', path: '/flaky', manner: 'flaky', fields: { retry, circuit: 'off' } },
  { app: 'keyed', path: '/keyed', manner: 'flaky', order: 'key', fields: { order: 'key', retry, circuit: 'off' } },
  { app: 'queued', path: '/queued', manner: 'slow', order: 'fifo', fields: { order: 'fifo', retry } },
  {
    ...{ app: 'paced', path: '/paced', manner: 'slow', rate: 25, burst: 5, concurrency: 50 },
    fields: { throttleRate: 25, burst: 5, concurrency: 50 },
  },
  {
    ...{ app: 'held', path: '/held', manner: 'holding', concurrency: 1, holds: true },
    fields: { concurrency: 1, retry, circuit: 'off' },
  },
]

type Ended = Awaited<ReturnType<typeof listAll>>

const flows: readonly Flow[] = [
  { app: 'plain', perSecond: 40 },
  { app: 'keyed', perSecond: 24, orderingKeys: 6 },
  { app: 'queued', perSecond: 12 },
  { app: 'paced', perSecond: 20 },
  { app: 'held', perSecond: 2 },
]

/** Records of ordered deliveries wait for the disk, and everything before them with them: a quiet fault comes without. */
function flowsOf({ isQuiet }: FaultKind): readonly Flow[] {
  return flows.filter(({ app }) => isQuiet !== true || app === 'plain')
}

/** How long the last deliveries may take once nothing fails any more. */
const drainMs = 90_000

/** Rules that hold once everything is delivered. */
const atTheEnd: ReadonlySet<Rule> = new Set(['lost', 'ended', 'unsent'])

/** Does the faults of a plan to a world of its own, and checks its histories. */
export async function runPlan(tools: Tools, plan: Plan): Promise<Outcome> {
  const { kind, store, seed, plant } = plan
  const workshop = kind.needsShim ? tools : { ...tools, shim: undefined }
  const options = { seed, plant: plant?.module, settings: { SLUICE_LEASE: `${leaseMs}ms`, ...kind.settings } }
  const world = new (kind.world ?? (store === 'sqlite' ? SqliteWorld : PostgresWorld))(workshop, options)
  const load = new Load(() => world.server.api, seed)
  const faults: Fault[] = []
  const stuck: string[] = []
  const violations: Violation[] = []
  let ended: Ended | undefined
  try {
    if (world instanceof SqliteWorld) placeTemplate(world, tools.template)
    await world.open()
    const listed = await subscribe(world)
    await plant?.begin?.(world)
    load.start(flowsOf(kind))
    try {
      for (let round = 0; round < plan.rounds; round++) await doRound(world, load, plan, { faults, violations })
      await load.stop()
      // A planted fault that is found already has left a store that may never drain.
      if (plant === undefined || violations.length === 0) ended = await drained(world, load, kind, listed)
    } catch (error) {
      stuck.push(`${(error as Error).message} ${lastLines(world)}`)
    }
    await load.stop()
    const histories = {
      endpoints: subjects.map(({ manner: _manner, fields: _fields, ...endpoint }) => endpoint),
      published: load.published,
      arrived: await world.receiver.ask('history'),
      sent: ended?.sent ?? [],
      states: ended?.states ?? [],
      faults,
    }
    if (plan.keep !== undefined) keep(plan, plan.keep, histories, world)
    violations.push(...check(histories).filter(({ rule }) => ended !== undefined || !atTheEnd.has(rule)))
    return { plan, histories, violations, stuck }
  } finally {
    await load.stop()
    await load.close()
    await world.close()
  }
}

/** Waits until everything is delivered and returns the server's own record of it; rejects when the store is damaged. */
async function drained(world: World, load: Load, kind: FaultKind, listed: readonly Listed[]): Promise<Ended> {
  kind.finish?.(world)
  await load.askAgain()
  await eventually('everything is delivered', async () => (await world.pending()) === 0, drainMs)
  const damage = await world.damage()
  if (damage !== undefined) throw new Error(`the store is damaged: ${damage}`)
  return listAll(world.server, listed)
}

/** Makes the applications and their endpoints. */
async function subscribe(world: World): Promise<Listed[]> {
  const url = await world.receiver.ask('url')
  const listed: Listed[] = []
  for (const app of new Set(subjects.map((each) => each.app)))
    await world.server.ask('POST', '/app', { name: app, uid: app })
  for (const [i, { app, path, manner, fields }] of subjects.entries()) {
    await world.receiver.ask('behave', { path, manner, seed: world.chance.below(2 ** 31) + i })
    const endpoint = await world.server.ask('POST', `/app/${app}/endpoint`, { url: `${url}${path}`, ...fields })
    listed.push({ app, path, id: endpoint.id })
  }
  return listed
}

/** Lets the load run for a while, does the fault, and notes it also when the world does not get over it. */
async function doRound(world: World, load: Load, plan: Plan, notes: Notes): Promise<void> {
  const { kind, seed, store } = plan
  const before = load.accepted
  await eventually('messages are accepted', () => load.accepted >= before + 40, drainMs)
  await new Promise((resolve) => setTimeout(resolve, world.chance.below(900)))
  if (kind.isQuiet) {
    await load.stop()
    await eventually('everything is delivered', async () => (await world.pending()) === 0, drainMs)
  }
  const { name, unrecordedMs, leavesOpen = false } = kind
  const movesHolds = kind.movesHolds?.includes(store) ?? false
  const from = machineNow()
  const at = new Map<keyof Marks, number>()
  const mark = (name: keyof Marks) => () => void at.set(name, machineNow())
  const marks = { gone: mark('gone'), promoted: mark('promoted'), healed: mark('healed') }
  const did: Record<string, number> = {}
  try {
    if (world instanceof SqliteWorld && kind.cutsPower && plan.earlierCuts !== undefined) {
      // The fault ends the program in any case.
      await world.server.kill()
      const broken = world.earlierCuts(load.published, plan.earlierCuts)
      notes.violations.push(...broken.map((sentence) => ({ rule: 'lost' as const, sentence })))
      did.earlierCuts = plan.earlierCuts
    }
    Object.assign(did, await kind.run(world, marks))
  } finally {
    const until = at.get('healed') ?? machineNow()
    const [gone, promoted] = [at.get('gone'), at.get('promoted')]
    const instants = { ...(gone !== undefined && { gone }), ...(promoted !== undefined && { promoted }) }
    notes.faults.push({ kind: name, seed, from, until, unrecordedMs, leavesOpen, movesHolds, ...instants, did })
  }
  if (kind.isQuiet) load.start(flowsOf(kind))
}

interface Notes {
  readonly faults: Fault[]
  readonly violations: Violation[]
}

function keep({ kind, store, seed }: Plan, folder: string, histories: Histories, { programs }: World): void {
  const place = join(folder, `${kind.name}-${store}-${seed}`)
  mkdirSync(place, { recursive: true })
  keepHistories(place, histories)
  for (const { command, logged } of programs) writeFileSync(join(place, `${command}.log`), logged)
}

function lastLines(world: World): string {
  const logged = world.programs.map(({ logged }) => logged.slice(-600)).join('\n')
  return `(the programs' last lines: ${logged})`
}
