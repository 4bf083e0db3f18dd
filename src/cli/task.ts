import { type Item, pathOf } from './client.ts'
import { CommandError, exitCode } from './outcome.ts'
import { progressLine, withProgress } from './progress.ts'
import type { Session } from './remote.ts'
import { text } from './show.ts'

const askMs = 250

/** Follows a background task to its end, showing how far it is. Throws CommandError when it failed. */
export async function followTask({ client, terminal, world }: Session, id: string, what: string): Promise<Item> {
  const path = pathOf('background-task', id)
  const ended = await withProgress(terminal, async (show) => {
    for (;;) {
      const task = await client.get(path)
      if (task.status !== 'running') return task
      show(progressLine(what, Number((task.data as Item | undefined)?.scanned ?? 0)))
      await new Promise<void>((resolve) => void world.clock.after(askMs, resolve))
    }
  })
  if (ended.status === 'finished') return ended
  throw new CommandError(`The task ${id} failed: ${text(ended.data)}`, exitCode.failed)
}
