import { Type } from 'typebox'
import { noSuch } from '../../domain/app-error.ts'
import { admin, read } from '../../operations/access.ts'
import {
  closed,
  createdAt,
  Instant,
  id,
  instant,
  integer,
  iso,
  isoOrNull,
  nullable,
  optional,
  shortText,
  text,
} from '../../operations/fields.ts'
import { type Noun, type Out, route } from '../../operations/route.ts'
import type { StoredSilence } from '../../store/maintenance.ts'
import { exampleAnnouncement } from './receivers.ts'
import { type AlertState, alertPhases, type Silence, type StoredAlert } from './rules.ts'

const rule = nullable(text('Name of the rule; null for all rules.'))
const subject = nullable(text('Id of the endpoint, or a worker such as `worker 7`; null for the server, or for all.'))

const AlertOut = Type.Object({
  rule: text('Name of the rule; docs/alerts.md lists the default ones.'),
  subject,
  phase: Type.Enum([...alertPhases], {
    description: '`pending`: the hold time is not over. `resolved`: kept for a week.',
  }),
  severity: Type.Enum(['warning', 'critical']),
  sentence: text('The trouble in a sentence or two, as it was when the alert fired.'),
  command: text('The command that helps, or the one that shows more.'),
  value: Type.Number({ description: 'The figure at the last change of the phase.' }),
  threshold: Type.Number(),
  app: nullable(text('Uid or id of the application; null for an alert about the server.')),
  endpoint: nullable(text('Uid or id of the endpoint.')),
  isAnnounced: Type.Boolean({ description: 'False while a silence holds the announcement back.' }),
  since: instant('Start of the phase.'),
  firedAt: nullable(Instant),
  resolvedAt: nullable(Instant),
})

const SilenceOut = Type.Object({
  id,
  rule,
  subject,
  from: instant('Start of the silence.'),
  until: instant('End of the silence.'),
  reason: Type.String(),
  createdBy: text('Id of the key that made it.'),
  createdAt,
})

const AlertsOut = Type.Object({
  alerts: Type.Array(AlertOut, { description: 'The firing ones first.' }),
  silences: Type.Array(SilenceOut, { description: 'Silences that have not ended.' }),
  asOf: Instant,
})

const longestSeconds = 30 * 24 * 60 * 60

const SilenceIn = Type.Object(
  {
    rule: optional(shortText(64), 'Name of a rule; default: all rules.'),
    subject: optional(shortText(64), 'Id of an endpoint, or a worker such as `worker 7`; default: all subjects.'),
    seconds: { ...integer(1, longestSeconds), description: 'Length of the silence.' },
    startsInSeconds: optional(integer(0, longestSeconds), 'Time until it begins; default: 0.'),
    reason: optional(Type.String({ maxLength: 256 }), 'Note for other operators.'),
  },
  closed,
)

export const alerts: Noun = {
  tag: 'Alert',
  description: 'Figures of the whole system that are beyond their thresholds, and silences.',
  schemas: { AlertOut, AlertsOut, SilenceIn, SilenceOut },
  routes: [
    route('GET /alert', read, {
      id: 'v1.alert.list',
      summary: 'List alerts and silences',
      answers: { 200: AlertsOut },
      handle: async (_call, { store }) => {
        const { now, alerts, silences } = await store.readAlerts()
        const sorted = alerts.toSorted((a, b) => rank(a) - rank(b) || b.state.since - a.state.since)
        return { alerts: sorted.map(toAlertOut), silences: silences.map(toSilenceOut), asOf: iso(now) }
      },
    }),
    route('POST /alert/test', admin, {
      id: 'v1.alert.test',
      summary: 'Announce a test to every receiver',
      description: 'An alert of the rule `test` fires now, and the leader resolves it within ten seconds.',
      answers: { 202: AlertOut },
      handle: async (_call, { store }) => {
        const { now, alerts } = await store.readAlerts()
        const before = alerts.find((alert) => alert.rule === 'test')
        const state = testState(now)
        const change = { rule: 'test', subject: '', version: before?.version ?? 0, state, announce: 'firing' } as const
        await store.changeAlerts([change])
        return toAlertOut(change)
      },
    }),
    route('POST /alert/silence', admin, {
      id: 'v1.alert.silence',
      summary: 'Silence alerts for some time',
      description:
        'Alerts that fire meanwhile are not announced until the silence is over, and then only if they still fire. Alerts that were announced before are announced when they resolve.',
      body: SilenceIn,
      answers: { 201: SilenceOut },
      handle: async ({ body, request }, { store }) => {
        const { rule = null, subject = null, seconds, startsInSeconds = 0, reason = '' } = body
        const times = { startsInMs: startsInSeconds * 1000, lengthMs: seconds * 1000 }
        const createdBy = request.caller?.id ?? ''
        return toSilenceOut(await store.addSilence({ rule, subject, ...times, reason, createdBy }))
      },
    }),
    route('DELETE /alert/silence/:silence', admin, {
      id: 'v1.alert.unsilence',
      summary: 'End a silence',
      answers: { 204: null },
      handle: async ({ params }, { store }) => {
        if (!(await store.endSilence(params.silence))) throw noSuch('silence', params.silence)
      },
    }),
  ],
}

/** Firing alerts come first, then pending ones. */
function rank({ state: { phase } }: StoredAlert): number {
  return ['firing', 'pending', 'resolved'].indexOf(phase)
}

/** The state of the test, which no rule keeps firing. */
function testState(now: number): AlertState {
  const { severity, sentence, command, value, threshold } = exampleAnnouncement.data
  const times = { since: now, clearSince: null, firedAt: now, resolvedAt: null }
  const figures = { severity, sentence, command, value, threshold, app: null, endpoint: null }
  return { phase: 'firing', announced: true, ...times, ...figures }
}

function toAlertOut({ rule, subject, state }: Pick<StoredAlert, 'rule' | 'subject' | 'state'>): Out<typeof AlertOut> {
  const { since, firedAt, resolvedAt, announced, clearSince: _clearSince, ...figures } = state
  return {
    rule,
    subject: subject === '' ? null : subject,
    ...figures,
    isAnnounced: announced,
    since: iso(since),
    firedAt: isoOrNull(firedAt),
    resolvedAt: isoOrNull(resolvedAt),
  }
}

function toSilenceOut({ from, until, createdAt, ...silence }: StoredSilence & Silence): Out<typeof SilenceOut> {
  return { ...silence, from: iso(from), until: iso(until), createdAt: iso(createdAt) }
}
