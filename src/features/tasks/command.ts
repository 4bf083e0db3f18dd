import type { Command as Commander } from 'commander'
import { ApiProblem, type Item, pathOf } from '../../cli/client.ts'
import { option, type RemoteCommands, type Session } from '../../cli/command.ts'
import { ago, facts, grouped, instant, text } from '../../cli/table.ts'
import { CommandError, exitCode, pause, progressLine, withProgress } from '../../cli/terminal.ts'
import { choice, count } from '../../runtime/setting-kinds.ts'

const askMs = 250
const states = ['running', 'paused', 'finished', 'failed', 'cancelled']

/** `sluice task`: background tasks. */
export function addTask(commands: RemoteCommands): void {
  const task = commands.group('task', 'background tasks: list, show, pause, resume, cancel')

  task
    .list('list', 'list background tasks, newest first', (_, { options, world }) => {
      const { state, type } = options as { state?: string; type?: string }
      return {
        path: '/background-task',
        query: { state, task: type },
        empty: 'No tasks.',
        columns: [
          { title: 'CREATED', cell: ({ createdAt }) => ago(createdAt, world.clock.now()) },
          { title: 'TASK', cell: 'id' },
          { title: 'TYPE', cell: 'task' },
          { title: 'STATE', cell: 'state' },
          { title: 'DONE', cell: doneOf, flexible: true },
        ],
      }
    })
    .addOption(option('--state <STATE>', `only tasks that are ${states.join(', ')}`, choice(states)))
    .option('--type <TYPE>', 'only tasks of this type, such as dead.replay')

  task
    .add('show <task>', 'show a background task, or follow it with --wait', async (session, [id]) => {
      if (session.options.wait === true) await followTask(session, id, 'Working')
      session.show(await session.client.get(pathOf('background-task', id)), (item) => describe(session, item))
    })
    .option('--wait', 'wait for its end')

  for (const [action, description] of [
    ['pause', 'pause a background task'],
    ['resume', 'resume a paused background task'],
    ['cancel', 'cancel a background task; the work done so far is kept'],
  ] as const) {
    task.add(`${action} <task>`, description, async (session, [id]) => {
      const changed = await session.client.post(`${pathOf('background-task', id)}/${action}`, { body: {} })
      session.show(changed, () => `${text(changed.task)} is ${text(changed.state)}: ${doneOf(changed)}.`)
    })
  }
}

/** The flag for the pace of a replay. */
export function perSecondOption() {
  return option('--per-second <NUMBER>', 'queue at most this many a second', count(1, 100_000))
}

/** The pace that the flag names, in words. */
export function paceOf({ options: { perSecond } }: Session): string {
  if (perSecond === undefined) return 'as fast as the limits of each endpoint allow'
  return `at most ${grouped(Number(perSecond))} a second`
}

/** Adds `--no-wait` to a command that starts a background task. */
export function withNoWait(command: Commander): Commander {
  return command.option('--no-wait', 'do not wait until it is done')
}

/** Waits for a task that a command started and prints the sentence of `done`; with `--no-wait`, prints the task. */
export async function finishTask(
  session: Session,
  started: Item,
  doing: string,
  done: (data: Item) => string,
): Promise<void> {
  const id = text(started.id)
  if (session.options.wait === false) return session.show(started, () => `Started task ${id}.`)
  session.show(await followTask(session, id, doing), ({ data }) => done((data ?? {}) as Item))
}

/** Waits for the end of a background task and shows its progress. Throws CommandError when it failed or was cancelled. */
async function followTask({ client, terminal, world }: Session, id: string, what: string): Promise<Item> {
  const path = pathOf('background-task', id)
  const ended = await withProgress(terminal, async (show) => {
    for (;;) {
      const task = await client.get(path).catch((error: unknown) => sayWhyUnseen(id, error))
      if (task.status !== 'running') return task
      const { scanned, total } = countsOf(task)
      const doing = task.state === 'paused' ? `${what} (paused)` : what
      show(progressLine(doing, scanned, total === undefined || total === 0 ? undefined : scanned / total))
      await pause(world.clock, askMs)
    }
  })
  if (ended.state === 'cancelled') {
    throw new CommandError(`Task ${id} was cancelled: ${doneOf(ended)}.`, exitCode.failed)
  }
  if (ended.status === 'finished') return ended
  throw new CommandError(`Task ${id} failed: ${text(ended.data)}`, exitCode.failed)
}

/** Explains a 403: a key for one application may start a task, but only keys for all applications may read it. */
function sayWhyUnseen(id: string, error: unknown): never {
  if (!(error instanceof ApiProblem) || error.status !== 403) throw error
  const message = `Started task ${id}. This key may not read its progress; use --no-wait with such a key.`
  throw new ApiProblem(message, error.status)
}

function countsOf({ data }: Item): { scanned: number; total: number | undefined } {
  const { scanned = 0, total } = (data ?? {}) as { scanned?: unknown; total?: unknown }
  return { scanned: Number(scanned), total: total === undefined ? undefined : Number(total) }
}

/** The progress of a task, in a few words. */
function doneOf(task: Item): string {
  const { replayed, purged, unfiltered, totalAtLeast } = (task.data ?? {}) as Item
  const { scanned, total } = countsOf(task)
  const of =
    total !== undefined ? ` of ${grouped(total)}` : totalAtLeast === undefined ? '' : ` of ${grouped(totalAtLeast)}+`
  const parts = [`${grouped(scanned)}${of} scanned`]
  if (replayed !== undefined) parts.push(`${grouped(replayed)} replayed`)
  if (purged !== undefined) parts.push(`${grouped(purged)} purged`)
  if (unfiltered !== undefined) parts.push(`${grouped(unfiltered)} too large for the filter`)
  return parts.join(', ')
}

function describe({ terminal }: Session, task: Item): string {
  const { error } = (task.data ?? {}) as Item
  return facts(terminal, [
    ['task', text(task.id)],
    ['type', text(task.task)],
    ['state', text(task.state)],
    ['pace', task.perSecond == null ? '–' : `${text(task.perSecond)} a second`],
    ['created', instant(task.createdAt)],
    ['last step', instant(task.updatedAt)],
    ['done', doneOf(task)],
    ['error', typeof error === 'string' ? terminal.style('red', text(error)) : undefined],
  ])
}
