import { Type } from 'typebox'
import { read } from '../../operations/access.ts'
import { Instant, iso, nullable, text, whole } from '../../operations/fields.ts'
import { type Noun, route } from '../../operations/route.ts'
import { toTotalsOut, WaitingTotals } from '../why/schemas.ts'

const FindingOut = Type.Object({
  code: text('The rule, such as `circuit_open`; docs/doctor.md lists all.'),
  severity: Type.Enum(['warning', 'critical'], {
    description: '`critical`: deliveries stand still or may be lost.',
  }),
  sentence: text('The finding as a sentence or two.'),
  evidence: Type.Record(Type.String(), Type.Union([Type.Number(), Type.String(), Type.Boolean(), Type.Null()]), {
    description: 'Its figures by name. Names of durations end in `Ms`, and rates are per second.',
  }),
  command: text('The command that helps, or the one that shows more.'),
  app: nullable(text('Uid or id of the application; null for a finding about the whole system.')),
  endpoint: nullable(text('Uid or id of the endpoint.')),
})

const DoctorOut = Type.Object({
  status: Type.Enum(['healthy', 'warning', 'critical'], { description: 'The highest severity of the findings.' }),
  summary: text('Summary in one or two sentences.'),
  findings: Type.Array(FindingOut, { description: 'The critical ones first.' }),
  more: whole('Findings that were left out: of each code the first five are named.'),
  waiting: nullable(WaitingTotals),
  asOf: Instant,
})

export const doctor = {
  tag: 'Doctor',
  description: 'Findings about the whole system, with figures and the command that helps.',
  schemas: { FindingOut, DoctorOut },
  routes: [
    route('GET /doctor', read, {
      id: 'v1.doctor.get',
      summary: 'Examine the whole system',
      description:
        'Looks at the store, the workers and the endpoints that are worst off. 200 with any findings; `waiting` is null when the store is down. Requests that come at the same time share one examination.',
      answers: { 200: DoctorOut },
      handle: async (_call, { doctor }) => {
        const { at, waiting, ...found } = await doctor.examine()
        return { ...found, waiting: waiting && toTotalsOut(waiting), asOf: iso(at) }
      },
    }),
  ],
} satisfies Noun
