import { AsyncLocalStorage } from 'node:async_hooks'
import type { Trail, Trailing } from '../access.ts'
import { appendAudit } from '../sql/auditing.ts'
import { finishLater } from '../sql/port.ts'
import type { Database } from './database.ts'
import { sqlOver } from './port.ts'
import { type Run, statement } from './sessions.ts'

// A transaction has an id of its own once it has changed something.
const selectChanged = statement('has-changed', 'select pg_current_xact_id_if_assigned() is not null as changed')

/** Commits the audit entry of a request with the first transaction that changes something for it. */
export function trailing({ context, durable }: Database): Trailing {
  const trails = new AsyncLocalStorage<Trail>()

  async function takeAlong(run: Run, trail: Trail): Promise<() => void> {
    const [row] = await run<{ changed: boolean }>(selectChanged)
    if (row?.changed !== true) return () => {}
    await finishLater(appendAudit(sqlOver(run), context, trail.entry))
    return () => {
      trail.written = true
    }
  }

  durable.beforeCommit = (run) => {
    const trail = trails.getStore()
    return trail === undefined || trail.written ? undefined : takeAlong(run, trail)
  }

  return { trailing: (trail, work) => trails.run(trail, work) }
}
