import type { AlertState } from './rules.ts'

/** A receiver of alerts that the alerts file names. */
export type AlertReceiver = WebReceiver | CommandReceiver

interface Named {
  readonly name: string
  /** The rules whose alerts it gets; null for all. */
  readonly rules: readonly string[] | null
}

/** A receiver that alerts are delivered to by HTTP. It is an endpoint of operational webhooks. */
export interface WebReceiver extends Named {
  readonly type: 'slack' | 'pagerduty' | 'url'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly contentType: string
  /** The key of a PagerDuty service; empty for others. */
  readonly routingKey: string
  /** A body with `{{sentence}}` and the like; null for the notice itself. */
  readonly template: string | null
}

/** A program that runs for each announcement. Its first word is the program; no shell is between. */
export interface CommandReceiver extends Named {
  readonly type: 'command'
  readonly command: readonly string[]
  readonly timeoutMs: number
}

/** The end of a program: whether it succeeded, and the start of its output, or why it failed. */
interface CommandEnd {
  readonly isDone: boolean
  readonly output: string
}

/** Runs a program with these values in its environment. Never rejects. */
export type RunCommand = (
  command: readonly string[],
  values: Readonly<Record<string, string>>,
  input: string,
  timeoutMs: number,
) => Promise<CommandEnd>

/** An announcement, as receivers get it. */
export interface Announced {
  readonly type: 'alert.firing' | 'alert.resolved'
  readonly timestamp: string
  readonly data: AnnouncedData
}

interface AnnouncedData
  extends Pick<AlertState, 'severity' | 'sentence' | 'command' | 'value' | 'threshold' | 'app' | 'endpoint'> {
  readonly rule: string
  readonly alertId: string
  readonly [more: string]: unknown
}

/** The names that templates and commands know, with the values of an announcement. */
export function valuesOf({ type, timestamp, data }: Announced): Readonly<Record<string, string>> {
  const text = (value: unknown) => (value == null ? '' : String(value))
  return {
    type,
    status: type === 'alert.firing' ? 'firing' : 'resolved',
    timestamp,
    rule: data.rule,
    alertId: data.alertId,
    severity: data.severity,
    sentence: data.sentence,
    command: data.command,
    value: text(data.value),
    threshold: text(data.threshold),
    app: text(data.app),
    endpoint: text(data.endpoint),
    subject: text(data.subject),
    firedAt: text(data.firedAt),
    resolvedAt: text(data.resolvedAt),
  }
}

/** An example, by which templates are checked. */
export const exampleAnnouncement: Announced = {
  type: 'alert.firing',
  timestamp: '2026-11-16T09:40:12.123Z',
  data: {
    rule: 'test',
    subject: null,
    alertId: 'test//1794822012123',
    severity: 'warning',
    sentence: 'This is a test of the "receivers" of alerts.',
    command: 'sluice alert list',
    value: 1,
    threshold: 0,
    app: null,
    endpoint: null,
    firedAt: '2026-11-16T09:40:12.123Z',
    resolvedAt: null,
  },
}

/** Whether a receiver wants the alerts of a rule. Every receiver gets tests. */
export function wants({ rules }: Named, rule: string): boolean {
  return rules === null || rule === 'test' || rules.includes(rule)
}

/** The body that a receiver gets. */
export function bodyFor(receiver: WebReceiver, announced: Announced): string {
  if (receiver.type === 'slack') return JSON.stringify({ text: slackText(announced) })
  if (receiver.type === 'pagerduty') return JSON.stringify(pagerDutyEvent(receiver.routingKey, announced))
  if (receiver.template === null) return JSON.stringify(announced)
  return filled(receiver.template, valuesOf(announced), receiver.contentType.includes('json'))
}

const placeholder = /\{\{\s*(\w+)\s*\}\}/g

/** Names in a template that no announcement has. */
export function unknownNames(template: string): string[] {
  const known = valuesOf(exampleAnnouncement)
  return [...template.matchAll(placeholder)].map(([, name]) => name as string).filter((name) => !(name in known))
}

function filled(template: string, values: Readonly<Record<string, string>>, isJson: boolean): string {
  // Within JSON, a value stands in a string, whose quotes are the template's.
  const escaped = (value: string) => (isJson ? JSON.stringify(value).slice(1, -1) : value)
  return template.replaceAll(placeholder, (_, name: string) => escaped(values[name] ?? ''))
}

/** Slack reads `&`, `<` and `>` as its own marks. */
function slackText({ type, data: { rule, severity, sentence, command } }: Announced): string {
  const plain = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  if (type === 'alert.resolved') return `:white_check_mark: *Resolved: ${plain(rule)}*\n${plain(sentence)}`
  const sign = severity === 'critical' ? ':rotating_light:' : ':warning:'
  return `${sign} *${plain(rule)}* (${severity})\n${plain(sentence)}\n\`${plain(command)}\``
}

/** An event of PagerDuty's Events API v2. A resolution has the key of its trigger. */
function pagerDutyEvent(routingKey: string, { type, timestamp, data }: Announced): object {
  const key = { routing_key: routingKey, dedup_key: data.alertId.slice(0, 255) }
  if (type === 'alert.resolved') return { ...key, event_action: 'resolve' }
  return {
    ...key,
    event_action: 'trigger',
    client: 'Sluice',
    payload: {
      summary: data.sentence.slice(0, 1024),
      source: data.endpoint === null ? 'sluice' : `${data.endpoint} of ${data.app}`,
      severity: data.severity,
      timestamp,
      class: data.rule,
      custom_details: data,
    },
  }
}
