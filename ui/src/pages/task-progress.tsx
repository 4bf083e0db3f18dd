import { useEffect } from 'preact/hooks'
import { useAsk } from '../api/ask.ts'
import { call } from '../api/call.ts'
import type { BackgroundTaskOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button } from '../parts/button.tsx'
import { confirm } from '../parts/dialog.tsx'
import { Failure } from '../parts/page.tsx'
import { Pill } from '../parts/pill.tsx'
import { exact, perSecond } from '../parts/text.ts'
import { isAdmin } from '../session.ts'

/** How far a task is, as far as it says. */
export function Progress({ task: { data, state } }: { task: Pick<BackgroundTaskOut, 'data' | 'state'> }) {
  const scanned = numberOf(data.scanned)
  const total = numberOf(data.total) ?? numberOf(data.totalAtLeast)
  if (scanned === undefined) return <span class="faint">–</span>
  const isOver = state === 'finished'
  const share = isOver ? 1 : total === undefined || total === 0 ? 0 : scanned / total
  return (
    <span class="progress">
      <span class="meter" role="progressbar" aria-label="Progress" aria-valuenow={Math.round(share * 100)}>
        <i style={{ width: `${Math.min(100, share * 100)}%` }} />
      </span>
      <span class="soft">
        {exact(scanned)}
        {total !== undefined && ` of ${exact(total)}${data.total === undefined ? '+' : ''}`}
      </span>
    </span>
  )
}

interface TaskProgressProps {
  /** The application whose task it is; empty for a task of all. */
  readonly app: string
  readonly task: string
  /** Called once, when the task has ended. */
  onEnd?: (() => unknown) | undefined
}

const isOpen = (state: BackgroundTaskOut['state'] | undefined) => state === 'running' || state === 'paused'

/** A task that was started here: its live progress, and for admins the buttons that pause and end it. */
export function TaskProgress({ app, task: id, onEnd }: TaskProgressProps) {
  const ofAll = useAsk('GET /background-task/{task_id}', app === '' ? { path: { task_id: id } } : null, 1000)
  const ofOne = useAsk(
    'GET /app/{app_id}/background-task/{task_id}',
    app === '' ? null : { path: { app_id: app, task_id: id } },
    1000,
  )
  const { data, error, refresh } = app === '' ? ofAll : ofOne
  const hasEnded = data !== undefined && !isOpen(data.state)
  useEffect(() => {
    if (hasEnded) onEnd?.()
  }, [hasEnded])
  if (data === undefined) return error === undefined ? <p class="soft">Started.</p> : <Failure error={error} />
  return (
    <div class="stack">
      <p>
        <Pill state={data.state} />
        {data.perSecond !== null && <span class="soft"> at most {perSecond(data.perSecond)}</span>}
      </p>
      <Progress task={data} />
      {hasEnded ? (
        <p role="status">{resultOf(data.data)}</p>
      ) : (
        <p class="soft">
          The task goes on when this is closed. {isAdmin() && <a href={`/tasks/${id}`}>Show the task</a>}
        </p>
      )}
      {isAdmin() && !hasEnded && <TaskButtons task={data} onChange={refresh} />}
    </div>
  )
}

/** The buttons of a task that has not ended. */
export function TaskButtons({ task, onChange }: { task: BackgroundTaskOut; onChange(): Promise<void> }) {
  const path = { task_id: task.id }
  const run = async (operation: 'pause' | 'resume' | 'cancel', done: string) => {
    await act(() => call(`POST /background-task/{task_id}/${operation}`, { path }), done)
    await onChange()
  }
  return (
    <div class="actions">
      {task.state === 'running' ? (
        <Button icon="pause" onPress={() => run('pause', 'Paused.')}>
          Pause
        </Button>
      ) : (
        <Button icon="play" kind="primary" onPress={() => run('resume', 'Resumed.')}>
          Resume
        </Button>
      )}
      <Button
        icon="close"
        onPress={async () => {
          const text = 'What it has done stays done.'
          if (await confirm({ title: 'End this task?', text, action: 'End it', kind: 'danger' }))
            await run('cancel', 'Ended.')
        }}
      >
        End
      </Button>
    </div>
  )
}

/** `897 sent again.` A number below that of the letters means that the others were gone. */
function resultOf({ replayed, purged, unfiltered }: BackgroundTaskOut['data']): string {
  const parts: string[] = []
  if (numberOf(replayed) !== undefined) parts.push(`${exact(Number(replayed))} queued again`)
  if (numberOf(purged) !== undefined) parts.push(`${exact(Number(purged))} deleted`)
  if (numberOf(unfiltered) !== undefined) parts.push(`${exact(Number(unfiltered))} too large for the filter`)
  return parts.length === 0 ? 'Done.' : `${parts.join(', ')}.`
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined
}
