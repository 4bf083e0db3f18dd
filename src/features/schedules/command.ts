import { Option } from 'commander'
import { type Item, pathOf } from '../../cli/client.ts'
import { option, type RemoteCommands, type Session } from '../../cli/command.ts'
import { addFields, fieldsOf } from '../../cli/field-options.ts'
import { facts, instant, nameOf, table, text } from '../../cli/table.ts'
import { CommandError, exitCode } from '../../cli/terminal.ts'
import { count } from '../../runtime/setting-kinds.ts'
import { readPayload, withPayload } from '../messages/terminal.ts'
import { schedule as noun } from './noun.ts'

const runsShown = 5
/** The flags of a new schedule, whose expression and event type are operands. */
const { cron: _cron, eventType: _eventType, ...options } = noun.fields

/** `sluice schedule`: messages that are published by a cron expression. */
export function addSchedule(commands: RemoteCommands): void {
  const schedule = commands.group(
    'schedule',
    'scheduled (cron) messages: create, list, show, update, pause, resume, run, delete',
  )

  addFields(
    schedule.add(
      'create <app> <cron> <type> [payload]',
      'create a schedule by cron expression; the payload is JSON, @FILE, or - for standard input',
      async (session, [app, cron, eventType, given]) => {
        const fields = { ...fieldsOf(session, options), cron, eventType }
        const body = withBody(session, fields, await readPayload(session, given))
        const made = await session.client.post(pathOf('app', app, 'schedule'), { body })
        session.show(made, (item) => `Schedule ${nameOf(item)}\n${describe(session, item)}`)
      },
    ),
    options,
  ).addOption(rawOption())

  addFields(
    schedule.add(
      'update <app> <schedule> [payload]',
      'change fields of a schedule, and its payload if one is given; the others stay',
      async (session, [app, ref, given]) => {
        const fields = fieldsOf(session, noun.fields)
        const body = given === undefined ? fields : withBody(session, fields, await readPayload(session, given))
        if (given === undefined && Object.keys(fields).length === 0) {
          throw new CommandError('Nothing to change. Give a flag or a payload.', exitCode.misused)
        }
        const changed = await session.client.patch(pathOf('app', app, 'schedule', ref), { body })
        session.show(changed, (item) => `Schedule ${nameOf(item)}\n${describe(session, item)}`)
      },
    ),
    noun.fields,
  ).addOption(rawOption())

  schedule.list('list <app>', "list an application's schedules", ([app]) => ({
    path: pathOf('app', app, 'schedule'),
    empty: `No schedules. Create one: sluice schedule create ${app} '30 7 * * *' TYPE PAYLOAD`,
    columns: [
      { title: 'ID', cell: 'id' },
      { title: 'UID', cell: 'uid', flexible: true },
      { title: 'CRON', cell: 'cron' },
      { title: 'TIME ZONE', cell: 'timezone', flexible: true },
      { title: 'EVENT TYPE', cell: 'eventType', flexible: true },
      { title: 'NEXT RUN', cell: nextOf },
    ],
  }))

  schedule
    .add('show <app> <schedule>', 'show a schedule with its last and next runs', async (session, [app, ref]) => {
      const query = { next_runs: session.options.next as number }
      const found = await session.client.get(pathOf('app', app, 'schedule', ref), query)
      session.show(found, (item) => describe(session, item))
    })
    .addOption(option('--next <NUMBER>', 'number of next runs to show', count(0, 10)).default(runsShown))

  for (const [action, description, done] of [
    ['pause', 'pause a schedule', () => 'is paused'],
    ['resume', 'resume a paused schedule', (item: Item) => `is resumed; next run: ${nextOf(item)}`],
  ] as const) {
    schedule.add(`${action} <app> <schedule>`, description, async (session, [app, ref]) => {
      const changed = await session.client.post(`${pathOf('app', app, 'schedule', ref)}/${action}`)
      session.show(changed, (item) => `Schedule ${nameOf(item)} ${done(item)}.`)
    })
  }

  schedule.add('run <app> <schedule>', 'publish its message now', async (session, [app, ref]) => {
    const ran = await session.client.post(`${pathOf('app', app, 'schedule', ref)}/run`)
    session.show(ran, ({ msgId }) => `Published ${session.terminal.style('bold', text(msgId))}`)
  })

  schedule.addConfirmed(
    'delete <app> <schedule>',
    'delete a schedule',
    async ({ client }, [app, ref]) => {
      const { cron, timezone, eventType } = await client.get(pathOf('app', app, 'schedule', ref))
      return `Delete schedule ${ref} of ${app} (${text(cron)} ${text(timezone)}, ${text(eventType)})? Its messages are kept.`
    },
    async (session, [app, ref]) => {
      await session.client.delete(pathOf('app', app, 'schedule', ref))
      session.show({ deleted: ref }, () => `Deleted schedule ${ref}. Its messages are kept.`)
    },
  )
}

function rawOption(): Option {
  return new Option('--raw', 'take the payload as it is; it need not be JSON')
}

/** The fields with a payload: its bytes as they are, or as base64 when they need not be JSON. */
function withBody({ options }: Session, fields: Item, payload: Buffer): Buffer | Item {
  return options.raw === true ? { ...fields, bodyBase64: payload.toString('base64') } : withPayload(fields, payload)
}

function nextOf({ paused, nextRuns, cron }: Item): string {
  const [next] = (nextRuns ?? []) as unknown[]
  if (paused === true) return 'paused'
  if (next !== undefined) return instant(next)
  return String(cron).startsWith('@after') ? 'after its deliveries' : '–'
}

function describe({ terminal }: Session, item: Item): string {
  const next = (item.nextRuns as unknown[]).map((at) => instant(at))
  const last = (item.lastRuns as Item[]).slice(0, runsShown)
  const about = facts(terminal, [
    ['id', text(item.id)],
    ['uid', text(item.uid)],
    ['cron', String(item.cron).startsWith('@') ? text(item.cron) : `${text(item.cron)} (${text(item.timezone)})`],
    ['event type', text(item.eventType)],
    ['content type', text(item.contentType)],
    ['headers', headersOf(item)],
    ['state', stateOf(item)],
    ['missed runs', item.missed === 'all' ? `all, ${text(item.missedLimit)} at most` : text(item.missed)],
    ['next runs', next.length === 0 ? nextOf(item) : next.join(', ')],
  ])
  if (last.length === 0) return about
  const runs = table(
    terminal,
    [
      { title: 'RUN', cell: ({ at }) => instant(at) },
      { title: 'STATE', cell: runState },
      { title: 'MESSAGE', cell: 'msgId' },
      { title: 'WHY', cell: 'error', flexible: true },
    ],
    last,
  )
  return `${about}\n\n${runs}`
}

function headersOf({ headers, sensitiveHeaders }: Item): string | undefined {
  const shown = Object.entries(headers as Item).map(([name, value]) => `${name}: ${text(value)}`)
  const all = [...shown, ...(sensitiveHeaders as string[]).map((name) => `${name}: (hidden)`)]
  return all.length === 0 ? undefined : all.join(', ')
}

function stateOf({ paused, failures }: Item): string {
  if (paused === true) return 'paused'
  return Number(failures) > 0 ? `failing, tried ${text(failures)} times` : 'active'
}

function runState({ state, trigger, count: times }: Item): string {
  const often = Number(times) > 1 ? ` ×${text(times)}` : ''
  return `${text(state)}${often}${trigger === 'manual' ? ' by hand' : ''}`
}
