import { readFileSync } from 'node:fs'
import { dirname, resolve as resolvePath } from 'node:path'
import { ApiProblem, type Client, type Item, PatientClient, pathOf } from '../../cli/client.ts'
import type { RemoteCommands, Session } from '../../cli/command.ts'
import { counted } from '../../cli/table.ts'
import { CommandError, exitCode } from '../../cli/terminal.ts'
import type { Terminal } from '../../runtime/process.ts'
import { difference, type Present, type Step, stepLines } from './difference.ts'
import { isDefault, isSettable } from './settable.ts'
import {
  type Fields,
  isFields,
  type Kind,
  kinds,
  ownedKinds,
  readWanted,
  type Value,
  type WantedState,
  WrongState,
} from './wanted.ts'

/** Requests under way at once. The server answers a publish of others in between. */
const atOnce = 16
const mostPerSecond = 2000
/** Lines of the plan that are printed without --json. */
const longestPlan = 200

/** `sluice apply` and `sluice export`: the state of a server as a file. */
export function addApply(commands: RemoteCommands): void {
  commands
    .addConfirmed('apply', 'bring event types, applications and what they own to the state of a file', question, apply)
    .requiredOption('-f, --file <FILE>', 'YAML or JSON; - reads standard input')
    .option('--dry-run', 'only show the difference')
    .option('--prune', 'also delete what a list of the file does not have')
    .option('--secrets', 'write hidden fields again: secrets, headers, credentials')
  commands
    .add('export', 'print event types, applications and what they own as a file for `sluice apply`', exportState)
    .option('--app <APP>', 'only this application')
    .option('--secrets', 'with the secrets of endpoints; the output is then a secret')
}

/** The plan of a session, made once: the question and the run read the same. */
const plans = new WeakMap<Session, Promise<Step[]>>()

function planOf(session: Session): Promise<Step[]> {
  let plan = plans.get(session)
  if (plan === undefined) {
    plan = makePlan(session)
    plans.set(session, plan)
  }
  return plan
}

async function makePlan({ client, options, terminal }: Session): Promise<Step[]> {
  const wanted = await readState(String(options.file), terminal)
  const present = new PresentState(client)
  await present.load(wanted)
  return difference(wanted, (kind, app) => present.of(kind, app), {
    prune: options.prune === true,
    secrets: options.secrets === true,
  })
}

/** Only what deletes is asked for. */
async function question(session: Session): Promise<string | undefined> {
  if (session.options.dryRun === true) return undefined
  const deleted = (await planOf(session)).filter(({ action }) => action === 'delete')
  if (deleted.length === 0) return undefined
  const [first, second] = deleted
  const others = deleted.length > 2 ? ` and ${deleted.length - 2} more` : ''
  const names = [first, second].flatMap((step) => (step === undefined ? [] : `${kinds[step.kind].noun} ${step.name}`))
  return `Delete ${names.join(', ')}${others}, with all that waits for them?`
}

async function apply(session: Session): Promise<number> {
  const { terminal, client, options, json } = session
  const steps = await planOf(session)
  const counts = { create: 0, change: 0, delete: 0 }
  for (const { action } of steps) counts[action]++
  const dryRun = options.dryRun === true
  if (!json) {
    for (const step of steps.slice(0, longestPlan)) for (const line of stepLines(step)) terminal.print(line)
    if (steps.length > longestPlan) terminal.print(`… and ${steps.length - longestPlan} more`)
  }
  const patient = new PatientClient(client.deps, mostPerSecond)
  const failed = dryRun ? [] : await carryOut(patient, session, steps)
  for (const { step, problem } of failed) {
    if (!json) terminal.printError(`${kinds[step.kind].noun} ${step.name}${ownerOf(step)}: ${problem}`)
  }
  const report = {
    dryRun,
    ...counts,
    failed: failed.map(({ step, problem }) => ({ ...nameOf(step), problem })),
    steps: steps.map((step) => ({ ...nameOf(step), action: step.action, fields: Object.keys(step.fields) })),
  }
  session.show(report, () => {
    if (steps.length === 0) return `${client.url} has the state of the file already.`
    if (failed.length > 0)
      return `${failed.length} of ${counted(steps.length, 'step')} failed. Run the same command again.`
    const [created, changed, deleted] = dryRun
      ? ['to create', 'to change', 'to delete']
      : ['created', 'changed', 'deleted']
    const words = `${counts.create} ${created}, ${counts.change} ${changed}, ${counts.delete} ${deleted}.`
    return dryRun ? `${words} Nothing was changed.` : words
  })
  return failed.length === 0 ? exitCode.ok : exitCode.failed
}

const nameOf = ({ kind, app, name }: Step) => ({ kind: kinds[kind].noun, app: app ?? null, name })
const ownerOf = ({ app }: Step) => (app === undefined ? '' : ` of ${app}`)

interface FailedStep {
  readonly step: Step
  readonly problem: string
}

/** Carries the steps out: each kind after the one before it, and things of one kind side by side. */
async function carryOut(client: Client, { terminal, json }: Session, steps: readonly Step[]): Promise<FailedStep[]> {
  const failed: FailedStep[] = []
  const lost = new Set<string>()
  let done = 0
  const waves = [
    ...(['eventTypes', 'applications'] as const).map((kind) => steps.filter(isOf(kind, false))),
    steps.filter(({ kind, action }) => (ownedKinds as readonly Kind[]).includes(kind) && action !== 'delete'),
    steps.filter(({ action, kind }) => action === 'delete' && kind !== 'applications'),
    steps.filter(isOf('applications', true)),
  ]
  for (const wave of waves) {
    const queue = wave[Symbol.iterator]()
    const work = async (): Promise<void> => {
      for (const step of queue) {
        if (step.app !== undefined && lost.has(step.app)) {
          failed.push({ step, problem: `its application was not created` })
          continue
        }
        try {
          await carryOutOne(client, step)
        } catch (error) {
          if (!(error instanceof ApiProblem)) throw error
          if (step.kind === 'applications' && step.action === 'create') lost.add(step.name)
          failed.push({ step, problem: error.message })
        }
        if (!json && ++done % 100 === 0) terminal.progress(`${done} of ${steps.length}`)
      }
    }
    await Promise.all(Array.from({ length: atOnce }, work))
  }
  terminal.progress('')
  return failed
}

const isOf = (kind: Kind, deletes: boolean) => (step: Step) =>
  step.kind === kind && (step.action === 'delete') === deletes

async function carryOutOne(client: Client, { kind, app, name, action, fields }: Step): Promise<void> {
  const list = listPath(kind, app)
  const one = `${list}${pathOf(name)}`
  if (action === 'create') {
    await client.post(list, { body: fields })
    return
  }
  if (action === 'delete') {
    await client.delete(one)
    return
  }
  // A secret changes by a rotation: the one before works on for a while.
  const { secret, ...others } = fields
  if (secret !== undefined) await rotate(client, kind, one, secret)
  if (Object.keys(others).length > 0) await client.patch(one, { body: others })
}

async function rotate(client: Client, kind: Kind, one: string, secret: Value): Promise<void> {
  // The API says the secret of an endpoint, and never that of a source.
  const present = kind === 'endpoints' ? (await client.get(`${one}/secret`)).key : undefined
  if (present === secret) return
  const body = kind === 'endpoints' ? { key: secret } : { secret }
  await client.post(`${one}/secret/rotate`, { body })
}

function listPath(kind: Kind, app: string | undefined): string {
  const { path } = kinds[kind]
  return app === undefined ? pathOf(path) : pathOf('app', app, path)
}

/** The things of the server, read once for each list that matters. */
class PresentState {
  readonly #client: Client
  readonly #lists = new Map<string, ReadonlyMap<string, Present>>()

  constructor(client: Client) {
    this.#client = client
  }

  of(kind: Kind, app: string | undefined): ReadonlyMap<string, Present> {
    return this.#lists.get(listPath(kind, app)) ?? new Map()
  }

  async load(wanted: WantedState): Promise<void> {
    const top = wanted.complete.filter(({ app }) => app === undefined)
    await Promise.all(top.map(({ kind }) => this.#read(kind, undefined)))
    const known = this.of('applications', undefined)
    const lists = wanted.complete.filter(({ app }) => app !== undefined && known.has(app))[Symbol.iterator]()
    const work = async (): Promise<void> => {
      for (const { kind, app } of lists) await this.#read(kind, app)
    }
    await Promise.all(Array.from({ length: atOnce }, work))
  }

  async #read(kind: Kind, app: string | undefined): Promise<void> {
    const path = listPath(kind, app)
    this.#lists.set(path, await byName(this.#client, kind, path))
  }
}

/** All things of a list, by the name that a file gives them: their uid, else their id. */
async function byName(client: Client, kind: Kind, path: string): Promise<ReadonlyMap<string, Present>> {
  const { items } = await client.list(path, archivedToo(kind), Number.POSITIVE_INFINITY)
  return new Map(items.map((item) => [nameIn(kind, item), item as Present]))
}

const archivedToo = (kind: Kind) => (kind === 'eventTypes' ? { include_archived: true, with_content: true } : {})
const nameIn = (kind: Kind, item: Item): string => String(item[kinds[kind].named] ?? item.id)

async function readState(file: string, terminal: Terminal): Promise<WantedState> {
  const { parseDocument } = await import('yaml')
  let text: string
  try {
    const read = file === '-' ? await terminal.readInput() : readFileSync(resolvePath(terminal.directory, file))
    text = read.toString()
  } catch (error) {
    throw new CommandError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code}).`, exitCode.misused)
  }
  const document = parseDocument(text)
  const [wrong] = document.errors
  if (wrong !== undefined) throw new CommandError(`${file} is not YAML: ${wrong.message}`, exitCode.misused)
  try {
    return readWanted(document.toJS({ maxAliasCount: 100 }), references(file === '-' ? '.' : dirname(file), terminal))
  } catch (error) {
    if (!(error instanceof WrongState)) throw error
    throw new CommandError(`${file}:\n  - ${error.message.replaceAll('\n', '\n  - ')}`, exitCode.misused)
  }
}

/** The texts of `{env: NAME}`, and of `{file: PATH}` from the folder of the file. */
function references(folder: string, { env, directory }: Terminal) {
  return (reference: Fields): string | undefined => {
    const [[kind, place] = [], ...others] = Object.entries(reference)
    if (others.length > 0 || typeof place !== 'string' || (kind !== 'env' && kind !== 'file')) return undefined
    if (kind === 'env') {
      const text = env[place]
      if (text === undefined || text === '') throw new WrongState(`the variable ${place} is not set.`)
      return text
    }
    try {
      return readFileSync(resolvePath(directory, folder, place), 'utf8').replace(/\r?\n$/, '')
    } catch (error) {
      throw new WrongState(`the file ${place} cannot be read (${(error as NodeJS.ErrnoException).code}).`)
    }
  }
}

/** Fields of answers that no request sets. */
const answered: ReadonlySet<string> = new Set(['id', 'createdAt', 'updatedAt', 'rateLimit', 'filterTypes', 'damaged'])

async function exportState({ client, options, terminal, json }: Session): Promise<void> {
  const { stringify } = await import('yaml')
  const only = options.app as string | undefined
  const toFile = (kind: Kind, item: Item): Fields => {
    const named = { [kinds[kind].named]: nameIn(kind, item) }
    const fields = Object.entries(item).filter(
      ([name, value]) =>
        isSettable(kind, name) && !answered.has(name) && !isDefault(kind, name, value) && !isEmpty(value),
    )
    return { ...named, ...(Object.fromEntries(fields) as Fields) }
  }
  const listed = async (kind: Kind, app?: string) => {
    const { items } = await client.list(listPath(kind, app), archivedToo(kind), Number.POSITIVE_INFINITY)
    return items
  }
  const apps = only === undefined ? await listed('applications') : [await client.get(pathOf('app', only))]
  const applications: Fields[] = []
  for (const app of apps) {
    const name = nameIn('applications', app)
    const owned: Record<string, Value> = {}
    for (const kind of ownedKinds) {
      const items = (await listed(kind, name)).map((item) => toFile(kind, item))
      if (kind === 'endpoints' && options.secrets === true) {
        for (const [i, item] of items.entries()) {
          const { key } = await client.get(`${listPath(kind, name)}${pathOf(String(item.uid))}/secret`)
          items[i] = { ...item, secret: key as Value }
        }
      }
      if (items.length > 0) owned[kind] = items
    }
    applications.push({ ...toFile('applications', app), ...owned })
  }
  const eventTypes = only === undefined ? (await listed('eventTypes')).map((item) => toFile('eventTypes', item)) : []
  const state = { ...(eventTypes.length > 0 && { eventTypes }), applications }
  terminal.print(json ? JSON.stringify(state, null, 2) : stringify(state, { lineWidth: 120 }).trimEnd())
}

/** An empty collection or text. */
function isEmpty(value: unknown): boolean {
  if (value === '') return true
  return (Array.isArray(value) && value.length === 0) || (isFields(value) && Object.keys(value).length === 0)
}
