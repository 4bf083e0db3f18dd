import { isDeepStrictEqual } from 'node:util'
import { Option } from 'commander'
import { ApiProblem, type Item, PatientClient, pathOf } from '../../cli/client.ts'
import { option, type RemoteCommands, type Session } from '../../cli/command.ts'
import { counted } from '../../cli/table.ts'
import { CommandError, exitCode } from '../../cli/terminal.ts'
import { isPathStep } from '../../domain/api.ts'
import { count } from '../../runtime/setting-kinds.ts'

const tokenVariable = 'SVIX_TOKEN'
const hosted = /\.(us|eu|in|ca|au)$/

/** `sluice import`: copies the configuration of another service. */
export function addImport(commands: RemoteCommands): void {
  commands
    .group('import', 'copy the configuration of another service: svix')
    .add('svix', 'copy event types, applications and endpoints with their secrets from a Svix server', importSvix)
    .option('--from <URL>', "Svix server (default: the hosted one of the token's region)")
    .option('--token <TOKEN>', `API token of that server (default: ${tokenVariable})`)
    .option('--dry-run', 'only show the changes')
    .option('--keep', 'leave everything that exists as it is; only create')
    .option('--start-after <APP>', 'continue after this application of the Svix server, by id or uid')
    .addOption(
      new Option('--signature-headers <FAMILY>', 'names of the signature headers of created applications')
        .choices(['webhook', 'svix', 'both'])
        .default('both'),
    )
    .addOption(option('--per-second <NUMBER>', 'requests a second to each server', count(1, 1000)).default(20))
}

async function importSvix(session: Session): Promise<number> {
  const { terminal, json, options } = session
  const svixCopy = new SvixCopy(session)
  try {
    await svixCopy.run()
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    const { done } = svixCopy
    const again = done === undefined ? '' : `, or go on with --start-after ${done}`
    throw new CommandError(
      `${error.message}\nStopped. Run the same command again${again}: objects that are equal are left alone.`,
      error.exitCode,
      { cause: error },
    )
  }
  const { report } = svixCopy
  terminal.progress('')
  if (!json) for (const note of report.notes) terminal.printError(`${note.object}: ${note.problem}`)
  session.show(report, () => summary(report, options.dryRun === true))
  return report.notes.some(({ failed }) => failed) ? exitCode.failed : exitCode.ok
}

interface Counts {
  created: number
  changed: number
  equal: number
}

/** A part of an object that was not copied, and whether the object itself is missing because of it. */
interface Note {
  readonly object: string
  readonly problem: string
  readonly failed: boolean
}

interface Report {
  readonly dryRun: boolean
  readonly eventTypes: Counts
  readonly applications: Counts
  readonly endpoints: Counts
  readonly notes: Note[]
}

const nothing = (): Counts => ({ created: 0, changed: 0, equal: 0 })

/**
 * One copy of everything from a Svix server. Objects are matched by uid; one without, or with `.` or `..`, gets `from-` and its old id. A
 * repeated copy finds them again, so that a copy that stopped goes on where it was.
 */
class SvixCopy {
  readonly report: Report
  /** The last application that was copied whole. */
  done: string | undefined
  readonly #session: Session
  readonly #from: PatientClient
  readonly #to: PatientClient

  constructor(session: Session) {
    const { world, options, client } = session
    const { url, key } = sourceOf(session)
    this.#session = session
    const { clock, version } = world
    this.#from = new PatientClient({ url, key, option: '--from', clock, version }, options.perSecond as number)
    this.#to = new PatientClient(client.deps, options.perSecond as number)
    if (this.#from.url === this.#to.url) {
      throw new CommandError('--from and --url are the same server.', exitCode.misused)
    }
    const dryRun = options.dryRun === true
    this.report = { dryRun, eventTypes: nothing(), applications: nothing(), endpoints: nothing(), notes: [] }
  }

  async run(): Promise<void> {
    const { startAfter } = this.#session.options
    if (startAfter === undefined) await this.#copyEventTypes()
    let skipping = startAfter !== undefined
    for await (const application of this.#source('/app', { order: 'ascending' })) {
      if (!skipping) {
        await this.#copyApplication(application)
        this.done = String(application.id)
      }
      if (application.id === startAfter || application.uid === startAfter) skipping = false
    }
    if (skipping)
      throw new CommandError(`There is no application ${startAfter} at ${this.#from.url}.`, exitCode.notFound)
  }

  async #copyEventTypes(): Promise<void> {
    const query = { with_content: true, include_archived: true }
    const existing = new Map<unknown, Item>()
    for await (const item of this.#to.all('/event-type', query)) existing.set(item.name, item)
    for await (const item of this.#source('/event-type', query)) {
      const { name, description, archived = false, deprecated = false } = item
      const featureFlags = item.featureFlags ?? (item.featureFlag == null ? null : [item.featureFlag])
      const [schemas, groupName] = [item.schemas ?? null, item.groupName ?? null]
      const wanted = { description, archived, deprecated, schemas, featureFlags, groupName }
      await this.#upsert('eventTypes', `event type ${name}`, existing.get(name), wanted, {
        create: () => this.#to.post('/event-type', { body: { name, ...wanted } }),
        change: (changes) => this.#to.patch(pathOf('event-type', String(name)), { body: changes }),
      })
    }
  }

  async #copyApplication(application: Item): Promise<void> {
    const uid = uidOf(application)
    const path = pathOf('app', uid)
    const { name, metadata } = application
    const wanted = { name, metadata: metadata ?? {}, throttleRate: rateOf(application) }
    const { signatureHeaders } = this.#session.options
    const existing = await this.#to.find(path)
    const isThere = await this.#upsert('applications', uid, existing, wanted, {
      create: () => this.#to.post('/app', { body: { uid, ...wanted, signatureHeaders } }),
      change: (changes) => this.#to.patch(path, { body: changes }),
    })
    if (!isThere) return
    const endpoints = new Map<unknown, Item>()
    if (existing !== undefined) {
      for await (const endpoint of this.#to.all(`${path}/endpoint`)) endpoints.set(endpoint.uid, endpoint)
    }
    for await (const endpoint of this.#source(pathOf('app', String(application.id), 'endpoint'))) {
      await this.#copyEndpoint(application, endpoint, path, endpoints.get(uidOf(endpoint)))
    }
  }

  async #copyEndpoint(application: Item, endpoint: Item, appPath: string, existing: Item | undefined): Promise<void> {
    const uid = uidOf(endpoint)
    const label = `${uidOf(application)}/${uid}`
    this.#session.terminal.progress(label)
    const source = pathOf('app', String(application.id), 'endpoint', String(endpoint.id))
    const path = `${appPath}${pathOf('endpoint', uid)}`
    const { key: secret } = await this.#ask(`${source}/secret`)
    const shown = await this.#ask(`${source}/headers`)
    const headers = (shown.headers ?? {}) as Record<string, string>
    const sensitive = (shown.sensitive ?? []) as string[]
    const isPair = typeof secret === 'string' && /^whp?s?k_/.test(secret)
    if (isPair)
      this.#note(label, 'its ed25519 key pair cannot be read and is a new one: give the receiver the new public key')
    const wanted = {
      url: endpoint.url,
      description: endpoint.description ?? '',
      disabled: endpoint.disabled ?? false,
      eventTypes: endpoint.eventTypes ?? endpoint.filterTypes ?? null,
      channels: endpoint.channels ?? null,
      metadata: endpoint.metadata ?? {},
      throttleRate: rateOf(endpoint),
      headers,
      ...(!isPair && { secret }),
    }
    const kept = existing && (await this.#to.get(`${path}/headers`))
    const oldSecret = existing && (await this.#to.get(`${path}/secret`)).key
    const before = existing && { ...existing, headers: kept?.headers, secret: isPair ? undefined : oldSecret }
    await this.#upsert('endpoints', label, before, wanted, {
      create: () => this.#to.post(`${appPath}/endpoint`, { body: { uid, ...wanted } }),
      change: async ({ headers: newHeaders, secret: newSecret, ...changes }) => {
        // Secret headers, set by hand after an earlier copy, stay.
        const deleteHeaders = Object.keys((kept?.headers ?? {}) as Item).filter((name) => !(name in headers))
        if (newHeaders !== undefined) await this.#to.patch(`${path}/headers`, { body: { headers, deleteHeaders } })
        if (newSecret !== undefined) await this.#to.post(`${path}/secret/rotate`, { body: { key: newSecret } })
        if (Object.keys(changes).length > 0) await this.#to.patch(path, { body: changes })
      },
    })
    const lost = sensitive.filter((name) => !((kept?.sensitive ?? []) as string[]).includes(name))
    if (lost.length > 0) this.#note(label, `values of secret headers cannot be read: set ${lost.join(', ')} again`)
    // A transformation is a script that the hosted Svix runs. A receiver that relies on one would get other payloads.
    const transformation = await this.#from.find(`${source}/transformation`)
    if (transformation?.enabled === true) {
      this.#note(label, 'its transformation is a script and is not copied: see filters and shapes (docs/shaping.md)')
    }
  }

  /** Creates or changes an object, unless it is equal. False when the target refused it, or would have to have it first. */
  async #upsert(
    kind: 'eventTypes' | 'applications' | 'endpoints',
    label: string,
    existing: Item | undefined,
    wanted: Item,
    { create, change }: { create(): Promise<unknown>; change(changes: Item): Promise<unknown> },
  ): Promise<boolean> {
    const counts = this.report[kind]
    const changes =
      existing &&
      Object.fromEntries(
        Object.entries(wanted).filter(([name, value]) => !isDeepStrictEqual(plain(existing[name]), plain(value))),
      )
    const { dryRun, keep } = this.#session.options
    try {
      if (changes === undefined) {
        if (dryRun !== true) await create()
        counts.created++
      } else if (keep === true || Object.keys(changes).length === 0) {
        counts.equal++
      } else {
        if (dryRun !== true) await change(changes)
        counts.changed++
      }
      return true
    } catch (error) {
      // The object is refused for its contents; the next one may be fine.
      if (!(error instanceof ApiProblem) || ![400, 409, 413, 422].includes(error.status)) throw error
      this.report.notes.push({ object: label, problem: error.message, failed: true })
      return false
    }
  }

  #note(object: string, problem: string): void {
    this.report.notes.push({ object, problem, failed: false })
  }

  async #ask(path: string): Promise<Item> {
    return this.#from.get(path).catch((error: unknown) => {
      throw ofSource(error)
    })
  }

  async *#source(path: string, query: Parameters<PatientClient['all']>[1] = {}): AsyncGenerator<Item> {
    try {
      yield* this.#from.all(path, query)
    } catch (error) {
      throw ofSource(error)
    }
  }
}

/** Replaces the hint at this program's own key. */
function ofSource(error: unknown): unknown {
  if (!(error instanceof ApiProblem) || (error.status !== 401 && error.status !== 403)) return error
  return new CommandError(`The Svix server refuses the token. Is --token or ${tokenVariable} right?`, exitCode.denied)
}

function sourceOf({ terminal, options }: Session): { readonly url: string; readonly key: string } {
  const key = (options.token as string | undefined) ?? terminal.env[tokenVariable]
  if (key === undefined || key === '') {
    throw new CommandError(`A token of the Svix server is required: --token or ${tokenVariable}.`, exitCode.misused)
  }
  const [, region] = hosted.exec(key) ?? []
  const url = (options.from as string | undefined) ?? (region && `https://api.${region}.svix.com`)
  if (url === undefined) throw new CommandError('Name the Svix server with --from URL.', exitCode.misused)
  return { url, key }
}

/** The uid of the copy. `from-` and the old id stand for a uid that is absent, and for one that clients resolve in a URL. */
function uidOf({ id, uid }: Item): string {
  if (typeof id !== 'string') throw new CommandError('The Svix server lists an object without an id.', exitCode.failed)
  return uid == null || !isPathStep(String(uid)) ? `from-${id}` : String(uid)
}

/** Older versions call it rateLimit; 0 means none. */
function rateOf({ throttleRate, rateLimit }: Item): unknown {
  const rate = throttleRate ?? rateLimit ?? null
  return Number(rate) === 0 ? null : rate
}

/** Plain JSON, with names of headers and lists of event types in one order, for comparing. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => plain(item)).sort()
  if (typeof value !== 'object' || value === null) return value ?? null
  return JSON.parse(JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? String(each) : each)))
}

function summary({ eventTypes, applications, endpoints, notes }: Report, dryRun: boolean): string {
  const line = (noun: string, { created, changed, equal }: Counts) =>
    `${counted(created + changed + equal, noun)}: ${created} ${dryRun ? 'to create' : 'created'}, ${changed} ${dryRun ? 'to change' : 'changed'}, ${equal} left as they are`
  const failed = notes.filter((note) => note.failed).length
  return [
    line('event type', eventTypes),
    line('application', applications),
    line('endpoint', endpoints),
    ...(failed > 0 ? [`${counted(failed, 'object')} refused; see above.`] : []),
    ...(notes.length > failed ? [`${counted(notes.length - failed, 'note')}; see above.`] : []),
  ].join('\n')
}
