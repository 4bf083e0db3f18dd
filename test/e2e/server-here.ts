import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { RunHere } from '../cli/program.ts'
import { atEnd } from './at-end.ts'
import { askAt, type Exit, type Program, settingsOf } from './program.ts'

/** A server as a test sees it that neither kills nor pauses it. */
export type Server = Pick<Program, 'api' | 'ask' | 'logged' | 'printed' | 'terminate' | 'exited'>

/**
 * Starts a server or a worker within this process, with the settings of `Program.start`: the real program over the real
 * store. A process of its own takes half a second more of processor time. Tests that kill or pause a server need one, and
 * so do tests that look at the exit of a process, at all that it writes, or at variables that are no settings.
 */
export async function startHere(
  t: TestContext,
  command: 'serve' | 'worker',
  store: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<Server> {
  const home = mkdtempSync(join(tmpdir(), 'sluice-e2e-'))
  const run = new RunHere([command], home, { SLUICE_SHUTDOWN_LIMIT: '0s', ...settingsOf(store, settings) })
  atEnd(t, async () => {
    run.stop('SIGTERM')
    await run.ended
    rmSync(home, { recursive: true })
    if (!(t as TestContext & { readonly passed: boolean }).passed)
      t.diagnostic(`the log of ${command} ends:\n${run.err.slice(-3000)}`)
  })
  const ready = command === 'serve' ? /Listening on (http:\/\/[\d.:]+)/ : /delivering as a worker/
  const api = `${await run.says(ready)}/api/v1`
  return {
    api,
    ask: (method, path, body) => askAt(api, method, path, body),
    get logged() {
      return run.err
    },
    get printed() {
      return run.out
    },
    terminate: () => run.stop('SIGTERM'),
    exited: run.ended.then((code): Exit => ({ code, signal: null })),
  }
}
