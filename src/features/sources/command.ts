import type { Command as Commander } from 'commander'
import { type Item, pathOf } from '../../cli/client.ts'
import { change, option, type RemoteCommands, type Session } from '../../cli/command.ts'
import { addFields, fieldFacts, fieldsOf, unsetFields, unsetOption, withoutMarks } from '../../cli/field-options.ts'
import { ago, counted, facts, grouped, instant, nameOf, shorten, table, text } from '../../cli/table.ts'
import { CommandError, exitCode } from '../../cli/terminal.ts'
import { moment, nearest } from '../../domain/phrases.ts'
import { duration } from '../../runtime/setting-kinds.ts'
import { isProviderName, type ProviderName, providerNames, providers } from '../../sources/providers.ts'
import { source as noun } from './noun.ts'
import { byFlags, flagOf, locate, ownSettings, settings, settingsOf, stepOf } from './terminal.ts'

const day = 86_400_000

/** `sluice source`: URLs that take webhooks of other services in. */
export function addSource(commands: RemoteCommands): void {
  const source = commands.group(
    'source',
    'incoming webhooks of other services: providers, create, list, show, update, rotate, samples, delete',
  )

  source.add('providers', 'list the services that Sluice can verify', async (session) => {
    const { data } = await session.client.get('/source-provider')
    session.show(data as unknown as Item, () =>
      table(
        session.terminal,
        [
          { title: 'PROVIDER', cell: 'name' },
          { title: 'NAME', cell: 'title' },
          { title: 'VERIFIED BY', cell: ({ description }) => withoutMarks(text(description)), flexible: true },
        ],
        data as Item[],
      ),
    )
  })

  withFields(
    source.add(
      'create <provider>',
      'create a source and print the URL to paste at the provider',
      async (session, [name]) => {
        const { app, secret } = session.options as { app?: string; secret?: string }
        if (app === undefined) throw new CommandError('Name the application: --app APP.', exitCode.misused)
        if (!isProviderName(name)) {
          const meant = nearest(name, providerNames)
          const hint = `${meant === undefined ? '' : `Did you mean ${meant}?\n`}Providers: ${providerNames.join(', ')}.`
          const message = `There is no provider ${JSON.stringify(name)}. ${hint}`
          throw new CommandError(message, exitCode.misused)
        }
        const body = { provider: name, secret, ...changeOf(session) }
        const made = await byFlags(name, session.client.post(pathOf('app', app, 'source'), { body }))
        session.show(made, (item) => `${describe(session, item, app)}\n\n${nextSteps(session, app, item)}`)
      },
    ),
  )
    .option('--app <APP>', 'application that gets the messages')
    .option(
      '--secret <SECRET>',
      'secret of the provider; where you choose it, one is made by default; else it may be set later, with rotate',
    )

  source
    .list('list', 'list sources, of one application or of all', (_operands, { options, world }) => ({
      path: options.app === undefined ? '/source' : pathOf('app', options.app as string, 'source'),
      empty: 'No sources. Create one: sluice source create github --app APP',
      columns: [
        { title: 'SOURCE', cell: nameOf },
        { title: 'PROVIDER', cell: 'provider' },
        { title: 'NAME', cell: 'name', flexible: true },
        ...(options.app === undefined
          ? [{ title: 'APP', cell: ({ appUid, appId }: Item) => text(appUid ?? appId), flexible: true as const }]
          : []),
        { title: 'ACCEPTED', cell: ({ arrivals }) => grouped((arrivals as Item).accepted), align: 'right' },
        { title: 'REFUSED', cell: ({ arrivals }) => grouped((arrivals as Item).refused), align: 'right' },
        { title: 'STATE', cell: (item) => stateOf(item, world.clock.now()) },
      ],
    }))
    .option('--app <APP>', 'only this application (default: all)')

  inApp(
    source.add('show <source>', 'show a source with its URL and its arrivals', async (session, [ref]) => {
      const { app, path } = await locate(session, ref)
      session.show(await session.client.get(path), (item) => describe(session, item, app))
    }),
  )

  inApp(
    withFields(
      source.add(
        'update <source>',
        'change a source; a flag of the provider replaces that setting',
        async (session, [ref]) => {
          const { app, path, item } = await locate(session, ref)
          const { settings: given, ...rest } = changeOf(session)
          const unset = unsetOf(session, item)
          const body = {
            ...rest,
            ...unset.fields,
            settings: (given ?? unset.settings) && { ...ownSettings(item), ...(given as Item), ...unset.settings },
          }
          const changed = await byFlags(text(item.provider), change(session, path, body))
          session.show(changed, (shown) => describe(session, shown, app))
        },
      ),
    ),
  ).addOption(unsetOption('event-type or uid'))

  inApp(
    source.add(
      'rotate <source>',
      'give a source a new URL, or with --secret or --new-secret a new secret; the old one counts for the grace period',
      async (session, [ref]) => {
        const { secret, newSecret, grace } = session.options as { secret?: string; newSecret?: true; grace: number }
        if (secret !== undefined && newSecret !== undefined) {
          throw new CommandError('Give --secret or --new-secret, not both.', exitCode.misused)
        }
        const { path, item } = await locate(session, ref)
        const now = session.world.clock.now()
        const until = (what: string, verb: string) => {
          if (what === 'secret' && (item.secrets as Item[]).length === 0) return ''
          const old = `\nThe old ${what}`
          return grace === 0 ? `${old} no longer ${verb}.` : `${old} ${verb} until ${moment(now + grace, now)}.`
        }
        const body = { gracePeriodSeconds: Math.round(grace / 1000) }
        if (secret === undefined && newSecret === undefined) {
          const moved = await session.client.post(`${path}/token/rotate`, { body })
          return session.show(
            moved,
            ({ url }) => `New URL: ${session.terminal.style('bold', text(url))}${until('URL', 'works')}`,
          )
        }
        const asked = session.client.post(`${path}/secret/rotate`, { body: { ...body, secret } })
        return session.show(await byFlags(text(item.provider), asked), ({ secret: made }) => {
          const head =
            made === null ? 'The secret is set.' : `New secret: ${session.terminal.style('bold', text(made))}`
          return `${head}${until('secret', 'counts')}`
        })
      },
    ),
  )
    .option('--secret <SECRET>', 'the new secret of the provider')
    .option('--new-secret', 'make a new secret')
    .addOption(
      option('--grace <DURATION>', 'time for which the old one counts', duration(0, 7 * day)).default(2 * day, '2d'),
    )

  inApp(
    source.add('samples <source>', 'show the newest refused requests of a source, and why', async (session, [ref]) => {
      const { path } = await locate(session, ref)
      const { data } = await session.client.get(`${path}/sample`)
      session.show(data as unknown as Item, () => samplesOf(session, data as Item[]))
    }),
  )

  inApp(
    source.addConfirmed(
      'delete <source>',
      'delete a source',
      async (session, [ref]) => {
        const { item } = await locate(session, ref)
        return `Delete source ${nameOf(item)} (${text(item.provider)}, ${text(item.name)})? Its URL stops working; its messages are kept.`
      },
      async (session, [ref]) => {
        const { path } = await locate(session, ref)
        await session.client.delete(path)
        session.show({ deleted: ref }, () => `Deleted source ${ref}. Its messages are kept.`)
      },
    ),
  )
}

function inApp(command: Commander): Commander {
  return command.option('--app <APP>', 'application of the source (default: looked up among all)')
}

function withFields(command: Commander): Commander {
  return addFields(addFields(command, settings), noun.fields)
}

function changeOf(session: Session): Item {
  const given = fieldsOf(session, settings)
  return { ...fieldsOf(session, noun.fields), settings: Object.keys(given).length === 0 ? undefined : given }
}

/** The fields and the settings that `--unset` names, with their defaults. Null is the default of a setting. */
function unsetOf(session: Session, { provider }: Item): { fields: Item; settings: Item | undefined } {
  const title = isProviderName(String(provider)) ? providers[String(provider) as ProviderName].title : String(provider)
  const ofProvider = Object.entries(settingsOf(provider)).map(
    ([field, { flag, required }]) => [field, { flag, noNull: required }] as const,
  )
  const { uid, name, metadata } = noun.fields
  const own: Item = { uid: null, name: title, metadata: metadata.fallback }
  const ofSource = { uid: { flag: uid.flag }, name: { flag: name.flag }, metadata: { flag: metadata.flag } }
  const names = Object.keys(unsetFields(session, { ...ofSource, ...Object.fromEntries(ofProvider) }))
  const [fields, others] = [names.filter((each) => each in own), names.filter((each) => !(each in own))]
  return {
    fields: Object.fromEntries(fields.map((each) => [each, own[each]])),
    settings: others.length === 0 ? undefined : Object.fromEntries(others.map((each) => [each, null])),
  }
}

function stateOf(item: Item, now: number): string {
  const { disabled, damaged, arrivals } = item
  if (damaged === true) return 'damaged'
  if (disabled === true) return 'disabled'
  if (lacksSecret(item)) return 'no secret yet'
  const { acceptedAt, refusedAt, refusedInRow, refusedCode } = arrivals as Item
  if (Number(refusedInRow) > 0) return `refusing: ${text(refusedCode)}, ${ago(refusedAt, now)}`
  return acceptedAt === null ? 'nothing arrived' : `ok, ${ago(acceptedAt, now)}`
}

function describe({ terminal, world }: Session, item: Item, app: string): string {
  const { arrivals, provider, sensitiveSettings, metadata } = item
  const tokens = item.tokens as Item[]
  const { accepted, refused } = arrivals as Item
  const known = settingsOf(provider)
  return facts(terminal, [
    ['id', text(item.id)],
    ['uid', item.uid === null ? undefined : text(item.uid)],
    ['application', app],
    ['provider', text(provider)],
    ['name', text(item.name)],
    [
      'url',
      item.url === null ? undefined : `${terminal.style('bold', text(item.url))}${older(tokens, 'works', 'work')}`,
    ],
    ['secret', secretOf(item, terminal)],
    ...fieldFacts(item.settings as Item, known),
    ...(sensitiveSettings as string[]).map((name) => [flagOf(name).slice(2).replaceAll('-', ' '), 'set'] as const),
    ['metadata', Object.keys(metadata as Item).length === 0 ? undefined : text(metadata)],
    ['state', stateOf(item, world.clock.now())],
    ['arrivals', `${grouped(accepted)} accepted, ${grouped(refused)} refused`],
  ])
}

function secretOf(item: Item, terminal: Session['terminal']): string | undefined {
  const secrets = item.secrets as Item[]
  if (item.secret != null) return terminal.style('bold', text(item.secret))
  if (lacksSecret(item)) return 'not set yet: requests get 503 until it is'
  return secrets.length === 0 ? undefined : `set${older(secrets, 'counts', 'count')}`
}

/** Whether no request can be verified before a secret is set. */
function lacksSecret({ provider, secrets }: Item): boolean {
  const name = String(provider)
  return (secrets as Item[]).length === 0 && isProviderName(name) && providers[name].secret?.required === true
}

/** The number of older URLs or secrets beside the newest. */
function older({ length }: readonly Item[], one: string, many: string): string {
  if (length < 2) return ''
  return ` (${length - 1} older ${length === 2 ? `one still ${one}` : `ones still ${many}`})`
}

/** The steps at the provider, and how to see the first event. */
function nextSteps({ terminal }: Session, app: string, item: Item): string {
  const provider = String(item.provider)
  const steps = isProviderName(provider) ? providers[provider].steps : []
  const source = nameOf(item)
  return [
    terminal.style('dim', 'Next:'),
    ...steps.map((step, i) => `  ${i + 1}. ${stepOf(provider, step)}`),
    ...(lacksSecret(item)
      ? [
          terminal.style('dim', 'As soon as you have the secret, set it:'),
          `  sluice source rotate ${source} --app ${app} --secret SECRET`,
        ]
      : []),
    terminal.style('dim', 'Then see its events arrive:'),
    `  sluice listen --source ${source} --app ${app}`,
    terminal.style('dim', 'If none arrives, see the refused requests:'),
    `  sluice source samples ${source} --app ${app}`,
  ].join('\n')
}

/** Characters of a refused body that are shown. */
const shownBody = 300

function samplesOf({ terminal }: Session, samples: readonly Item[]): string {
  if (samples.length === 0) return 'No refused requests.'
  return samples
    .map(({ at, code, reason, method, query, address, headers, body, bytes, unsampled }) => {
      const more = Number(unsampled) > 0 ? `, and ${grouped(unsampled)} more in that second` : ''
      const head = `${instant(at)}  ${terminal.style('red', text(code))}  ${text(method)} from ${text(address)}${more}`
      const list = Object.entries(headers as Item).map(([name, value]) => `  ${name}: ${text(value)}`)
      // The sender chose the body: on one line, it cannot look like another sample.
      const content = text(Buffer.from(String(body), 'base64').toString('utf8'))
      return [
        head,
        `  ${text(reason)}`,
        ...(query === '' ? [] : [`  parameters: ${text(query)}`]),
        ...list,
        bytes === null
          ? `  body: ${shorten(content, shownBody)}`
          : `  body, ${counted(Number(bytes), 'byte')}: ${shorten(content, shownBody)}`,
      ].join('\n')
    })
    .join('\n\n')
}
