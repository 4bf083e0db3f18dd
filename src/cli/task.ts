import { choice, count } from '../runtime/setting-kinds.ts'
import { ApiProblem, type Item, pathOf } from './client.ts'
import { CommandError, exitCode } from './outcome.ts'
import { progressLine, withProgress } from './progress.ts'
import { limitOption, option, type RemoteCommands, type Session, showList } from './remote.ts'
import { ago, instant, text } from './show.ts'
import { facts, table } from './table.ts'

const askMs = 250
const states = ['running', 'paused', 'finished', 'failed', 'cancelled']

/** `sluice task`: long work that goes on after the command that asked for it. */
export function addTask(commands: RemoteCommands): void {
  const task = commands.group('task', 'work in the background: list, show, pause, resume, cancel')

  commands
    .add(task, 'list', 'list background tasks, newest first', async (session) => {
      const { state, type, limit } = session.options as { state?: string; type?: string; limit: number }
      const found = await session.client.list('/background-task', { state, task: type }, limit)
      showList(session, found, 'No tasks.', (items) =>
        table(
          session.terminal,
          [
            { title: 'ASKED FOR', cell: ({ createdAt }) => ago(createdAt, session.world.clock.now()) },
            { title: 'TASK', cell: ({ id }) => text(id) },
            { title: 'WORK', cell: ({ task: work }) => text(work) },
            { title: 'STATE', cell: ({ state: is }) => text(is) },
            { title: 'DONE', cell: doneOf, flexible: true },
          ],
          items,
        ),
      )
    })
    .addOption(option('--state <STATE>', `only tasks that are ${states.join(', ')}`, choice(states)))
    .option('--type <WORK>', 'only this work, such as dead.replay')
    .addOption(limitOption())

  commands
    .add(task, 'show <task>', 'show a background task, or follow it with --wait', async (session, [id = '']) => {
      if (session.options.wait === true) await followTask(session, id, 'Working')
      session.show(await session.client.get(pathOf('background-task', id)), (item) => describe(session, item))
    })
    .option('--wait', 'follow it to its end first')

  for (const [order, description] of [
    ['pause', 'let a background task do nothing until it is resumed'],
    ['resume', 'let a paused background task go on'],
    ['cancel', 'end a background task; what it has done stays done'],
  ] as const) {
    commands.add(task, `${order} <task>`, description, async (session, [id = '']) => {
      const changed = await session.client.post(`${pathOf('background-task', id)}/${order}`, { body: {} })
      session.show(changed, () => `${text(changed.task)} is ${text(changed.state)}: ${doneOf(changed)}.`)
    })
  }
}

/** The pace of a replay. */
export function perSecondOption() {
  return option('--per-second <NUMBER>', 'send at most this many a second', count(1, 100_000))
}

/** Follows a background task to its end, showing how far it is. Throws CommandError when it failed or was cancelled. */
export async function followTask({ client, terminal, world }: Session, id: string, what: string): Promise<Item> {
  const path = pathOf('background-task', id)
  const ended = await withProgress(terminal, async (show) => {
    for (;;) {
      const task = await client.get(path).catch((error: unknown) => sayWhyUnseen(id, error))
      if (task.status !== 'running') return task
      const { scanned, total } = countsOf(task)
      const doing = task.state === 'paused' ? `${what} (paused)` : what
      show(progressLine(doing, scanned, total === undefined || total === 0 ? undefined : scanned / total))
      await new Promise<void>((resolve) => void world.clock.after(askMs, resolve))
    }
  })
  if (ended.state === 'cancelled') {
    throw new CommandError(`The task ${id} was cancelled: ${doneOf(ended)}.`, exitCode.failed)
  }
  if (ended.status === 'finished') return ended
  throw new CommandError(`The task ${id} failed: ${text(ended.data)}`, exitCode.failed)
}

/** A key for one application may begin what only keys for all may look at. */
function sayWhyUnseen(id: string, error: unknown): never {
  if (!(error instanceof ApiProblem) || error.status !== 403) throw error
  const message = `It goes on as task ${id}, but this key may not see how far it is; --no-wait does not look.`
  throw new ApiProblem(message, error.status)
}

function countsOf({ data }: Item): { scanned: number; total: number | undefined } {
  const { scanned = 0, total } = (data ?? {}) as { scanned?: unknown; total?: unknown }
  return { scanned: Number(scanned), total: total === undefined ? undefined : Number(total) }
}

/** How far a task has come, in a few words. */
function doneOf(task: Item): string {
  const { replayed, purged, unfiltered, totalAtLeast } = (task.data ?? {}) as Item
  const { scanned, total } = countsOf(task)
  const of =
    total !== undefined ? ` of ${number(total)}` : totalAtLeast === undefined ? '' : ` of ${number(totalAtLeast)}+`
  const parts = [`${number(scanned)}${of} looked at`]
  if (replayed !== undefined) parts.push(`${number(replayed)} replayed`)
  if (purged !== undefined) parts.push(`${number(purged)} purged`)
  if (unfiltered !== undefined) parts.push(`${number(unfiltered)} too large for the filter`)
  return parts.join(', ')
}

function number(value: unknown): string {
  return Number(value).toLocaleString('en')
}

function describe({ terminal }: Session, task: Item): string {
  return facts(terminal, [
    ['task', text(task.id)],
    ['work', text(task.task)],
    ['state', text(task.state)],
    ['pace', task.perSecond == null ? '–' : `${text(task.perSecond)} a second`],
    ['asked for', instant(task.createdAt)],
    ['last step', instant(task.updatedAt)],
    ['done', doneOf(task)],
    ...(typeof (task.data as Item | undefined)?.error === 'string'
      ? [['error', terminal.style('red', text((task.data as Item).error))] as [string, string]]
      : []),
  ])
}
