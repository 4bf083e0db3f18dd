import type { Asked } from '../api/ask.ts'
import type { DoctorOut, FindingOut } from '../api/schema.ts'
import { CopyButton } from '../parts/button.tsx'
import { Icon } from '../parts/icon.tsx'
import { Failure, Section } from '../parts/page.tsx'
import { count } from '../parts/text.ts'

/** What needs attention, each with what helps. */
export function Findings({ doctor }: { doctor: Asked<DoctorOut> }) {
  const { data, error } = doctor
  if (error && data === undefined) return <Failure error={error} retry={doctor.refresh} />
  if (data === undefined) return null
  return (
    <Section
      title="Needs attention"
      note={data.findings.length === 0 ? undefined : count(data.findings.length + data.more, 'finding')}
    >
      {data.findings.length === 0 ? (
        <p class="healthy">
          <Icon name="check" />
          {data.summary}
        </p>
      ) : (
        <ul class="findings">
          {data.findings.map((finding) => (
            <Finding key={`${finding.code} ${finding.app} ${finding.endpoint}`} finding={finding} />
          ))}
          {data.more > 0 && <li class="more faint">and {count(data.more, 'finding')} more of the same kinds</li>}
        </ul>
      )}
    </Section>
  )
}

function Finding({ finding: { severity, sentence, command, app, endpoint, code } }: { finding: FindingOut }) {
  const to = app !== null && endpoint !== null ? `/app/${app}/endpoint/${endpoint}` : placeOf(code)
  return (
    <li data-tone={severity === 'critical' ? 'bad' : 'wait'}>
      <Icon name="warning" />
      <div>
        <p>{sentence}</p>
        <p class="command">
          <code>{command}</code>
          <CopyButton text={command} label="Copy the command" />
        </p>
      </div>
      {to !== undefined && (
        <a class="button" href={to}>
          Open
        </a>
      )}
    </li>
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
