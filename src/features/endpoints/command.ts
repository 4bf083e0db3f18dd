import type { Command as Commander } from 'commander'
import { type Item, pathOf } from '../../cli/client.ts'
import { change, jsonValue, option, type RemoteCommands, type Session } from '../../cli/command.ts'
import {
  addFields,
  fieldFacts,
  fieldsOf,
  type Readers,
  retryPolicy,
  unsetFields,
  unsetOption,
} from '../../cli/field-options.ts'
import { facts, instant, nameOf, text, waitingText } from '../../cli/table.ts'
import { CommandError, exitCode, pause, readFileOrInput } from '../../cli/terminal.ts'
import { span } from '../../domain/phrases.ts'
import { duration } from '../../runtime/setting-kinds.ts'
import { outcome, statusCode, statusColour } from '../attempts/terminal.ts'
import { certificateWarning } from '../credentials/rules.ts'
import { endpointFields, type ObjectName } from './noun.ts'
import { stateColour, stateText } from './terminal.ts'

const day = 86_400_000

/** `sluice endpoint`: the endpoints of an application. */
export function addEndpoint(commands: RemoteCommands): void {
  const endpoint = commands.group(
    'endpoint',
    'endpoints: list, create, get, update, delete, test, pause, resume, secret, rotate',
  )
  const of = (app: string, ref: string) => pathOf('app', app, 'endpoint', ref)

  endpoint.list('list <app>', 'list the endpoints of an application', ([app]) => ({
    path: pathOf('app', app, 'endpoint'),
    empty: `No endpoints. Create one: sluice endpoint create ${app} URL`,
    columns: [
      { title: 'ENDPOINT', cell: nameOf },
      { title: 'URL', cell: 'url', flexible: true },
      {
        title: 'EVENTS',
        cell: ({ eventTypes }) => (eventTypes == null ? 'all' : text(eventTypes)),
        flexible: true,
      },
      { title: 'LIMIT', cell: limitOf },
      { title: 'STATE', cell: stateText, colour: stateColour },
    ],
  }))

  withFields(
    endpoint.add('create <app> <url>', 'create an endpoint', async (session, [app, url]) => {
      const body = { url, secret: session.options.secret, ...(await changeOf(session)) }
      const created = await session.client.post(pathOf('app', app, 'endpoint'), { body })
      const { key } = await session.client.get(`${of(app, text(created.id))}/secret`)
      session.show({ ...created, secret: key }, (item) => describe(session, item))
    }),
  ).option('--secret <SECRET>', 'sign with this secret instead of a new one: whsec_…, raw:TEXT, hex:DIGITS or whsk_…')

  endpoint.add('get <app> <endpoint>', 'show an endpoint, by id or uid', async (session, [app, ref]) => {
    session.show(await session.client.get(of(app, ref)), (item) => describe(session, item))
  })

  withFields(
    endpoint.add('update <app> <endpoint>', 'change an endpoint; other fields stay', async (session, [app, ref]) => {
      const body = {
        url: session.options.target,
        ...(await changeOf(session)),
        ...unsetFields(session, endpointFields),
      }
      // Before a request, so that the key does not go to the receiver.
      if (session.options.url !== undefined && Object.values(body).every((value) => value === undefined)) {
        const hint = '--url is the URL of the server. The URL of an endpoint is --target.'
        throw new CommandError(`Nothing to change. ${hint}`, exitCode.misused)
      }
      session.show(await change(session, of(app, ref), body), (item) => describe(session, item))
    }),
  )
    .option('--target <URL>', 'new URL of the endpoint')
    .addOption(unsetOption('rate or filter'))

  endpoint.addConfirmed(
    'delete <app> <endpoint>',
    'delete an endpoint and its waiting deliveries',
    async ({ client }, [app, ref]) => {
      const { url } = await client.get(of(app, ref))
      const { waiting } = await client.get(`${of(app, ref)}/lane`)
      return `Delete endpoint ${ref} (${text(url)}) of ${app} with ${waitingText(waiting as Item)} waiting deliveries?`
    },
    async (session, [app, ref]) => {
      await session.client.delete(of(app, ref))
      session.show({ deleted: ref }, () => `Deleted endpoint ${ref} and its waiting deliveries.`)
    },
  )

  endpoint.add(
    'test <app> <endpoint> [type]',
    'send an example event to an endpoint and show its answer',
    async (session, [app, ref, type]) => testEndpoint(session, app, ref, type),
  )

  endpoint.add('pause <app> <endpoint>', 'pause an endpoint until it is resumed', async (session, [app, ref]) => {
    await session.client.post(`${of(app, ref)}/pause`, { body: {} })
    session.show(
      { paused: ref },
      () => `Paused ${ref}: messages are accepted and wait until \`sluice endpoint resume ${app} ${ref}\`.`,
    )
  })

  endpoint.add('resume <app> <endpoint>', 'resume a paused endpoint', async (session, [app, ref]) => {
    await session.client.post(`${of(app, ref)}/resume`, { body: {} })
    session.show({ resumed: ref }, () => `Resumed ${ref}.`)
  })

  endpoint.add(
    'secret <app> <endpoint>',
    'print the secret that its receiver verifies with',
    async (session, [app, ref]) => {
      // Only the secret, because scripts read it.
      session.show(await session.client.get(`${of(app, ref)}/secret`), ({ key }) => text(key))
    },
  )

  endpoint
    .add(
      'rotate <app> <endpoint>',
      'replace the secret; the old one also signs until --grace is over',
      async (session, [app, ref]) => {
        const { secret, grace } = session.options as { secret?: string; grace?: number }
        const gracePeriodSeconds = grace === undefined ? undefined : Math.floor(grace / 1000)
        const body = { key: secret, gracePeriodSeconds }
        const rotated = await session.client.post(`${of(app, ref)}/secret/rotate`, { body })
        const endsAt = new Date(session.world.clock.now() + (grace ?? day)).toISOString()
        session.show<Item>({ ...rotated, oldSecretEndsAt: endsAt }, ({ key }) => {
          const old = grace === 0 ? 'signs no more' : `also signs until ${instant(endsAt)}`
          return facts(session.terminal, [
            ['secret', session.terminal.style('green', text(key))],
            ['old secret', old],
          ])
        })
      },
    )
    .option('--secret <SECRET>', 'the new secret (default: a random one)')
    .addOption(option('--grace <DURATION>', 'how long the old secret still signs (default: 24h)', duration(0, 7 * day)))
}

/** Always known to the server. */
const ping = 'svix.ping'

/** The first attempt of an example is waited for this long. */
const answerWaitMs = 15_000

const askMs = 250

/** Sends an example and waits for its first attempt. Without a type, the first that the endpoint subscribes to. */
async function testEndpoint(session: Session, app: string, ref: string, type: string | undefined): Promise<void> {
  const { client, world } = session
  const path = pathOf('app', app, 'endpoint', ref)
  const { eventTypes } = type === undefined ? await client.get(path) : {}
  const subscribed = ((eventTypes ?? []) as string[]).find((name) => !name.endsWith('*'))
  const message = await client.post(`${path}/send-example`, { body: { eventType: type ?? subscribed ?? ping } })
  const id = text(message.id)
  const until = world.clock.steady() + answerWaitMs
  for (;;) {
    const { items } = await client.list(pathOf('app', app, 'attempt', 'msg', id), {}, 1)
    const [attempt] = items
    if (attempt !== undefined) return showAnswer(session, message, attempt)
    if (world.clock.steady() >= until) break
    await pause(world.clock, askMs)
  }
  throw new CommandError(
    `Queued ${id}, and no attempt was made within ${span(answerWaitMs)}. The reason: sluice why ${app} ${id} ${ref}`,
    exitCode.failed,
  )
}

function showAnswer(session: Session, message: Item, attempt: Item): void {
  const result = `${statusCode(attempt)}  ${outcome(attempt)}  (${text(attempt.responseDurationMs)} ms)`
  session.show({ message, attempt }, () =>
    facts(session.terminal, [
      ['sent', `${text(message.eventType)}  ${text(message.id)}`],
      ['to', text(attempt.url)],
      ['answer', session.terminal.style(statusColour(attempt), result)],
    ]),
  )
  if (attempt.statusText !== 'success') {
    throw new CommandError('The receiver did not accept it. Sluice retries it by the retry policy.', exitCode.failed)
  }
}

const readers = {
  retry: retryPolicy,
  circuit: { ...jsonValue, parse: (raw: unknown) => (raw === 'off' ? raw : jsonValue.parse(raw)), show: text },
  coalesce: duration(2000, day),
  shape: jsonValue,
  // Texts, because a file keeps secrets out of the list of processes.
  auth: { placeholder: 'AUTH', parse: String, show: (auth: unknown) => authText(auth as Item) },
  clientCertificate: { placeholder: 'FILE', parse: String, show: (shown: unknown) => certificateText(shown as Item) },
} satisfies Readers & Record<ObjectName, unknown>

/** Adds the flags for the fields of an endpoint. */
function withFields(command: Commander): Commander {
  return addFields(command, endpointFields, readers)
    .option('--coalesce-key <POINTER>', 'deliveries with the same value there are of one kind, such as /video/id')
    .option('--client-key <FILE>', 'file with the private key of the client certificate, when its own file has none')
    .addOption(
      option(
        '--certificate-overlap <DURATION>',
        'how long a receiver that refuses the new client certificate is shown the one before (default: 24h)',
        duration(0, 30 * day),
      ),
    )
    .option('--disable', 'stop delivering')
    .option('--enable', 'deliver again')
}

/** The fields of the API that the flags set. */
async function changeOf(session: Session): Promise<Item> {
  const fields = fieldsOf(session, endpointFields)
  const { coalesceKey, disable, enable } = session.options
  if (coalesceKey !== undefined && fields.coalesce === undefined) {
    throw new CommandError('--coalesce-key needs --coalesce beside it, with for how long.', exitCode.misused)
  }
  return {
    ...fields,
    auth: await authOf(session, fields.auth),
    clientCertificate: await certificateOf(session, fields.clientCertificate),
    coalesce: fields.coalesce === undefined ? undefined : { windowMs: fields.coalesce, key: coalesceKey },
    disabled: disable === true ? true : enable === true ? false : undefined,
  }
}

function limitOf({ throttleRate, throttlePeriodSeconds, concurrency }: Item): string {
  const period = throttlePeriodSeconds == null || throttlePeriodSeconds === 1 ? 's' : `${throttlePeriodSeconds}s`
  const parts = [
    ...(throttleRate == null ? [] : [`${throttleRate}/${period}`]),
    ...(concurrency == null ? [] : [`${concurrency} at once`]),
  ]
  return parts.join(', ') || '–'
}

function describe({ terminal, world }: Session, item: Item): string {
  const {
    url,
    eventTypes,
    throttleRate: _rate,
    throttlePeriodSeconds: _period,
    concurrency: _at,
    coalesce,
    ...rest
  } = item
  const warning = warningOf(item, world.clock.now())
  return facts(terminal, [
    ['id', text(item.id)],
    ['url', text(url)],
    ['events', eventTypes == null ? 'all' : text(eventTypes)],
    ['limit', limitOf(item)],
    ...fieldFacts(rest, endpointFields, readers),
    ['coalesce', coalesce == null ? undefined : coalesceText(coalesce as Item)],
    ['state', terminal.style(stateColour(item), stateText(item))],
    ['created', instant(item.createdAt)],
    ['updated', instant(item.updatedAt)],
    ['secret', item.secret === undefined ? undefined : terminal.style('green', text(item.secret))],
    ['warning', warning === undefined ? undefined : terminal.style('yellow', warning)],
  ])
}

function coalesceText({ windowMs, key }: Item): string {
  const kind = key == null ? 'event type' : `event type and ${text(key)}`
  return `the newest of ${span(Number(windowMs))} by ${kind}`
}

/** The field `auth` from its flag: `bearer:TOKEN`, `basic:USER:PASSWORD`, JSON, or `@FILE` with one of these. */
async function authOf(session: Session, given: unknown): Promise<unknown> {
  if (given === undefined) return undefined
  const raw = String(given)
  const written = raw.startsWith('@') ? (await readFileOrInput(session.terminal, raw.slice(1))).toString().trim() : raw
  const [, kind, rest = ''] = /^(bearer|basic):(.*)$/s.exec(written) ?? []
  if (kind === 'bearer') return { kind, token: rest }
  if (kind === 'basic') {
    const colon = rest.indexOf(':')
    if (colon < 0) throw new CommandError('--auth basic: needs a user name, a colon and a password.', exitCode.misused)
    return { kind, username: rest.slice(0, colon), password: rest.slice(colon + 1) }
  }
  try {
    return JSON.parse(written)
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new CommandError('--auth must be bearer:TOKEN, basic:USER:PASSWORD, JSON, or @FILE.', exitCode.misused)
  }
}

/** The field `clientCertificate` from its flags. One file may hold the certificates and the key. */
async function certificateOf(session: Session, given: unknown): Promise<unknown> {
  const { clientKey, certificateOverlap } = session.options as { clientKey?: string; certificateOverlap?: number }
  if (given === undefined) {
    if (clientKey === undefined && certificateOverlap === undefined) return undefined
    const flag = clientKey === undefined ? '--certificate-overlap' : '--client-key'
    throw new CommandError(`${flag} needs --client-certificate beside it.`, exitCode.misused)
  }
  const whole = (await readFileOrInput(session.terminal, String(given))).toString()
  const key = clientKey === undefined ? whole : (await readFileOrInput(session.terminal, clientKey)).toString()
  const keys = blocksOf(key, 'PRIVATE KEY')
  if (keys === '' && clientKey === undefined) {
    throw new CommandError(`${given} has no private key. Give its file, too: --client-key FILE.`, exitCode.misused)
  }
  return {
    certificate: blocksOf(whole, 'CERTIFICATE') || whole,
    key: keys || key,
    overlapSeconds: certificateOverlap === undefined ? undefined : Math.floor(certificateOverlap / 1000),
  }
}

/** The PEM blocks of a text whose labels end with these words. */
function blocksOf(pem: string, words: string): string {
  const labelOf = (block: string) => /^-----BEGIN ([A-Z0-9 ]+)-----/.exec(block)?.[1] ?? ''
  const blocks = pem.split(/(?=-----BEGIN )/)
  return blocks.filter((block) => labelOf(block).endsWith(words)).join('')
}

function authText({ kind, username, tokenUrl, clientId, method }: Item): string {
  if (kind === 'basic') return `basic, user ${text(username)}`
  return kind === 'oauth2' ? `oauth2, ${text(clientId)} at ${text(tokenUrl)} (${text(method)})` : text(kind)
}

function certificateText({ subject, fingerprint, validUntil, replaces }: Item): string {
  const old = replaces == null ? '' : `; the one before is used until ${instant((replaces as Item).usedUntil)}`
  return `${text(subject)}, ${text(fingerprint).slice(0, 23)}…, valid until ${instant(validUntil)}${old}`
}

/** A warning about a certificate that a command has just set; undefined when it is good for a while. */
function warningOf({ clientCertificate }: Item, now: number): string | undefined {
  if (clientCertificate == null) return undefined
  const { validFrom, validUntil } = clientCertificate as Item
  const times = { validFrom: Date.parse(text(validFrom)), validUntil: Date.parse(text(validUntil)) }
  return certificateWarning(times, now) ?? undefined
}
