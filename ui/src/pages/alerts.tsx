import { useState } from 'preact/hooks'
import { useAsk } from '../api/ask.ts'
import { call } from '../api/call.ts'
import type { AlertOut, SilenceIn, SilenceOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Icon } from '../parts/icon.tsx'
import { Empty, Failure, Page, Section } from '../parts/page.tsx'
import { Pill } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { capital, count, words } from '../parts/text.ts'
import { Ago, toMs } from '../parts/time.tsx'
import { Trouble } from '../parts/trouble.tsx'
import { isAdmin } from '../session.ts'

/** An alert to silence; one without a rule stands for all alerts. */
type Silenced = Pick<SilenceIn, 'rule' | 'subject'>

/** The alerts that fire, those of the last week, and the silences. */
export function AlertsPage() {
  const asked = useAsk('GET /alert', {}, 5000)
  const [silenced, setSilenced] = useState<Silenced>()
  const { data, error, refresh } = asked
  const alerts = data?.alerts ?? []
  const firing = alerts.filter(({ phase }) => phase === 'firing')
  const pending = alerts.filter(({ phase }) => phase === 'pending')
  const resolved = alerts.filter(({ phase }) => phase === 'resolved')
  const list = (rows: readonly AlertOut[]) => (
    <ul class="troubles">
      {rows.map((alert) => (
        <Alert key={`${alert.rule} ${alert.subject}`} alert={alert} silence={setSilenced} />
      ))}
    </ul>
  )
  return (
    <Page
      title="Alerts"
      actions={
        isAdmin() && (
          <>
            <Button
              icon="send"
              onPress={async () => {
                await act(() => call('POST /alert/test'), 'A test alert goes to every receiver.')
                await refresh()
              }}
            >
              Send a test
            </Button>
            <Button icon="pause" onPress={() => setSilenced({})}>
              Silence all
            </Button>
          </>
        )
      }
    >
      {error && <Failure error={error} retry={refresh} />}
      {data !== undefined && (
        <>
          <Section title="Firing" note={firing.length === 0 ? undefined : count(firing.length, 'alert')}>
            {firing.length === 0 ? (
              <p class="healthy">
                <Icon name="check" />
                No alert fires.
              </p>
            ) : (
              list(firing)
            )}
          </Section>
          {pending.length > 0 && (
            <Section title="Pending" note="Beyond the threshold, and not for long enough">
              {list(pending)}
            </Section>
          )}
          <Section title="Silences">
            <Silences silences={data.silences} onDone={refresh} />
          </Section>
          {resolved.length > 0 && (
            <Section title="Resolved" note="In the last week">
              {list(resolved)}
            </Section>
          )}
        </>
      )}
      {silenced !== undefined && (
        <SilenceDialog
          of={silenced}
          onClose={() => {
            setSilenced(undefined)
            void refresh()
          }}
        />
      )}
    </Page>
  )
}

function Alert({ alert, silence }: { alert: AlertOut; silence(of: Silenced): void }) {
  const { rule, subject, phase, severity, sentence, command, app, endpoint, since, firedAt, isAnnounced } = alert
  const tone = phase === 'resolved' ? 'good' : severity === 'critical' ? 'bad' : 'wait'
  return (
    <Trouble
      tone={tone}
      severity={phase === 'resolved' ? 'resolved' : severity}
      sentence={sentence}
      command={phase === 'resolved' ? '' : command}
      note={
        <>
          {capital(words(rule))} · {phase === 'resolved' && 'resolved '}
          <Ago at={since} />
          {phase === 'resolved' && firedAt !== null && (
            <>
              , fired <Ago at={firedAt} />
            </>
          )}
          {phase === 'firing' && !isAnnounced && ' · silenced'}
        </>
      }
      actions={
        phase !== 'resolved' && (
          <>
            {isAdmin() && rule !== 'test' && (
              <Button onPress={() => silence({ rule, ...(subject !== null && { subject }) })}>Silence</Button>
            )}
            {app !== null && endpoint !== null && (
              <a class="button" href={`/app/${app}/endpoint/${endpoint}`}>
                Open
              </a>
            )}
          </>
        )
      }
    />
  )
}

function Silences({ silences, onDone }: { silences: readonly SilenceOut[]; onDone(): Promise<void> }) {
  const columns: Column<SilenceOut>[] = [
    {
      name: 'Silenced',
      width: 'minmax(0, 2fr)',
      cell: ({ rule, subject, reason }) => (
        <span class="two-lines">
          <span>
            {rule === null ? 'All alerts' : capital(words(rule))}
            {subject === null ? '' : ` of ${subject}`}
          </span>
          <span>{reason}</span>
        </span>
      ),
    },
    {
      name: 'State',
      width: '110px',
      narrow: 'hide',
      cell: ({ from }) => <Pill state={(toMs(from) ?? 0) <= Date.now() ? 'active' : 'later'} tone="quiet" />,
    },
    { name: 'Begins', width: '92px', align: 'end', narrow: 'hide', cell: ({ from }) => <Ago at={from} /> },
    { name: 'Ends', width: '92px', align: 'end', cell: ({ until }) => <Ago at={until} /> },
    {
      name: 'Actions',
      width: '84px',
      align: 'end',
      cell: ({ id }) =>
        isAdmin() && (
          <Button
            onPress={async () => {
              const path = { silence_id: id }
              await act(() => call('DELETE /alert/silence/{silence_id}', { path }), 'The silence is over.')
              await onDone()
            }}
          >
            End
          </Button>
        ),
    },
  ]
  return (
    <Table
      label="Silences"
      columns={columns}
      rows={silences}
      keyOf={({ id }) => id}
      rowHeight={56}
      isLoading={false}
      empty={
        <Empty title="No silence">
          An alert that fires within a silence is announced at its end, if it still fires.
        </Empty>
      }
    />
  )
}

const lengths = [
  [3600, 'for an hour'],
  [4 * 3600, 'for 4 hours'],
  [12 * 3600, 'for 12 hours'],
  [86_400, 'for a day'],
  [7 * 86_400, 'for a week'],
] as const
const starts = [
  [0, 'now'],
  [3600, 'in an hour'],
  [4 * 3600, 'in 4 hours'],
  [12 * 3600, 'in 12 hours'],
] as const

function SilenceDialog({ of, onClose }: { of: Silenced; onClose(): void }) {
  const { rule, subject } = of
  const name = rule === undefined ? 'all alerts' : `${words(rule)}${subject === undefined ? '' : ` of ${subject}`}`
  return (
    <Dialog title={`Silence ${name}`} onClose={onClose}>
      <form
        onSubmit={async (event) => {
          event.preventDefault()
          const form = new FormData(event.currentTarget)
          const body: SilenceIn = {
            ...of,
            seconds: Number(form.get('seconds')),
            startsInSeconds: Number(form.get('startsIn')),
            reason: String(form.get('reason')),
          }
          if (await act(() => call('POST /alert/silence', { body }), 'Silenced.')) onClose()
        }}
      >
        <div class="body">
          <Choice name="seconds" label="Length" choices={lengths} />
          <Choice name="startsIn" label="Begins" choices={starts} />
          <label class="field">
            <span class="label">Reason</span>
            <input name="reason" maxLength={256} autocomplete="off" placeholder="Maintenance of the database" />
            <span class="hint">Other operators read it here.</span>
          </label>
        </div>
        <footer>
          <Button onPress={onClose}>Cancel</Button>
          <Button type="submit" kind="primary">
            Silence
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}

function Choice({
  name,
  label,
  choices,
}: {
  name: string
  label: string
  choices: readonly (readonly [value: number, label: string])[]
}) {
  return (
    <label class="field">
      <span class="label">{label}</span>
      <select name={name}>
        {choices.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  )
}
