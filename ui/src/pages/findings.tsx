import { useState } from 'preact/hooks'
import type { Asked } from '../api/ask.ts'
import { call } from '../api/call.ts'
import type { DoctorOut, FindingOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button } from '../parts/button.tsx'
import { Icon } from '../parts/icon.tsx'
import { Failure, Section } from '../parts/page.tsx'
import { count } from '../parts/text.ts'
import { Trouble } from '../parts/trouble.tsx'
import { mayManage } from '../session.ts'

/** The findings that are shown until the reader asks for all. */
const shownAtFirst = 4

/** The findings of the doctor, each with its remedy. */
export function Findings({ doctor }: { doctor: Asked<DoctorOut> }) {
  const { data, error } = doctor
  const [isWhole, setWhole] = useState(false)
  if (error && data === undefined) return <Failure error={error} retry={doctor.refresh} />
  if (data === undefined) return null
  const all = data.findings.length
  const shown = isWhole ? data.findings : data.findings.slice(0, shownAtFirst)
  return (
    <Section
      title="Needs attention"
      note={all === 0 ? undefined : count(all + data.more, 'finding')}
      actions={
        all > shownAtFirst && (
          <Button kind="plain" onPress={() => setWhole(!isWhole)}>
            {isWhole ? 'Show fewer' : 'Show all'}
          </Button>
        )
      }
    >
      {all === 0 ? (
        <p class="healthy">
          <Icon name="check" />
          {data.summary}
        </p>
      ) : (
        <ul class="troubles">
          {shown.map((finding) => (
            <Finding
              key={`${finding.code} ${finding.app} ${finding.endpoint}`}
              finding={finding}
              onDone={doctor.refresh}
            />
          ))}
          {isWhole && data.more > 0 && (
            <li class="more faint">and {count(data.more, 'finding')} more of the same kinds</li>
          )}
        </ul>
      )}
    </Section>
  )
}

interface Remedy {
  readonly label: string
  readonly done: string
  run(at: { readonly app_id: string; readonly endpoint_id: string }): Promise<unknown>
}

const closeCircuit: Remedy = {
  label: 'Close circuit',
  done: 'The circuit is closed.',
  run: (path) => call('POST /app/{app_id}/endpoint/{endpoint_id}/circuit/close', { path }),
}
const retryFirst: Remedy = {
  label: 'Retry first',
  done: 'The first delivery is retried.',
  run: (path) => call('POST /app/{app_id}/endpoint/{endpoint_id}/lane/head/retry', { path, body: {} }),
}

/** The findings that one press may end. The others take a look, or a command on the machine. */
const remedies: Readonly<Record<string, Remedy>> = {
  endpoint_paused: {
    label: 'Resume',
    done: 'Resumed.',
    run: (path) => call('POST /app/{app_id}/endpoint/{endpoint_id}/resume', { path }),
  },
  endpoint_disabled: {
    label: 'Enable',
    done: 'Enabled.',
    run: (path) => call('PATCH /app/{app_id}/endpoint/{endpoint_id}', { path, body: { disabled: false } }),
  },
  circuit_open: closeCircuit,
  circuit_opened_by_hand: closeCircuit,
  head_blocked: retryFirst,
  order_waits: retryFirst,
  rate_reduced: {
    label: 'Full rate',
    done: 'The endpoint gets its full rate.',
    run: (path) => call('POST /app/{app_id}/endpoint/{endpoint_id}/circuit/reset', { path }),
  },
}

function Finding({ finding, onDone }: { finding: FindingOut; onDone(): Promise<void> }) {
  const { severity, sentence, command, app, endpoint, code } = finding
  const at = app !== null && endpoint !== null ? { app_id: app, endpoint_id: endpoint } : undefined
  const remedy = mayManage() ? remedies[code] : undefined
  const to = at === undefined ? placeOf(code) : `/app/${at.app_id}/endpoint/${at.endpoint_id}`
  return (
    <Trouble
      tone={severity === 'critical' ? 'bad' : 'wait'}
      severity={severity}
      sentence={sentence}
      command={command}
      actions={
        <>
          {at !== undefined && remedy !== undefined && (
            <Button
              onPress={async () => {
                await act(() => remedy.run(at), remedy.done)
                await onDone()
              }}
            >
              {remedy.label}
            </Button>
          )}
          {to !== undefined && (
            <a class="button" href={to}>
              Open
            </a>
          )}
        </>
      }
    />
  )
}

/** The page that belongs to a finding about no single endpoint. */
function placeOf(code: string): string | undefined {
  if (/worker|leader|version|lane|saturat|slot|clock/.test(code)) return '/workers'
  if (/dead/.test(code)) return '/dead'
  if (/schedule/.test(code)) return '/schedules'
  if (/backlog|waiting|behind/.test(code)) return '/endpoints?sort=waiting'
  if (/setting|key|encrypt/.test(code)) return '/settings'
  return undefined
}
