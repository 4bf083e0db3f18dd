import { type Item, pathOf } from './client.ts'
import { CommandError, exitCode } from './outcome.ts'
import { progressLine, withProgress } from './progress.ts'
import type { Session } from './remote.ts'
import { text } from './show.ts'

const askMs = 300

/** Follows a background task to its end, showing how far it is. Throws CommandError when it failed. */
export async function followTask(
  { client, terminal, world }: Session,
  started: Item,
  what: string,
  countName: string,
): Promise<Item> {
  const path = pathOf('background-task', text(started.id))
  const ended = await withProgress(terminal, async (show) => {
    for (let task = started; ; task = await client.get(path)) {
      if (task.status !== 'running') return task
      const { [countName]: done, total } = (task.data ?? {}) as Record<string, unknown>
      show(progressLine(what, Number(done ?? 0), typeof total === 'number' ? total : undefined))
      await new Promise<void>((resolve) => void world.clock.after(askMs, resolve))
    }
  })
  if (ended.status === 'finished') return ended
  throw new CommandError(`The task ${text(ended.id)} failed: ${text(ended.data)}`, exitCode.failed)
}
