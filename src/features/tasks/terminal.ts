import type { Command as Commander } from 'commander'
import { ApiProblem, type Item, pathOf } from '../../cli/client.ts'
import { option, type Session } from '../../cli/command.ts'
import { grouped, text } from '../../cli/table.ts'
import { CommandError, exitCode, pause, progressLine, withProgress } from '../../cli/terminal.ts'
import { count } from '../../runtime/setting-kinds.ts'

const askMs = 250

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
export async function followTask({ client, terminal, world }: Session, id: string, what: string): Promise<Item> {
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
export function doneOf(task: Item): string {
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
