import { type Item, pathOf } from '../../cli/client.ts'
import { option, type RemoteCommands, type Session } from '../../cli/command.ts'
import { ago, facts, instant, text } from '../../cli/table.ts'
import { choice } from '../../runtime/setting-kinds.ts'
import { doneOf, followTask } from './terminal.ts'

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
