import { writeFileSync } from 'node:fs'
import type { SimpleForm } from '../src/domain/field.ts'
import type { Provider, Setting } from '../src/sources/provider.ts'
import { type ProviderName, providerNames, providers } from '../src/sources/providers.ts'
import { valuesOf } from './endpoint-fields.ts'

/** Writes docs/source-providers.md from the table of providers: `node scripts/source-providers.ts`. */
export const pagePath = new URL('../docs/source-providers.md', import.meta.url)

/** Settings that every source has. They are described once. */
const common = ['eventType', 'eventId', 'replayWindowSeconds']

export function sourceProvidersPage(): string {
  return `# The providers of sources

\`scripts/source-providers.ts\` writes this page from \`src/sources/providers.ts\`. A [source](sources.md) has one of these providers, which
says how its requests are verified. \`GET /api/v1/source-provider\` answers the same table.

| provider | \`provider\` | verified by |
| --- | --- | --- |
${providerNames.map((name) => `| [${providers[name].title}](#${anchorOf(providers[name].title)}) | \`${name}\` | ${firstSentence(providers[name].description)} |`).join('\n')}

## Settings of every source

| setting | values | flag | |
| --- | --- | --- | --- |
${common.map((key) => settingRow(key, providers.github.settings[key] as Setting, false)).join('\n')}

A template holds text and values of the request in braces:

| value | stands for |
| --- | --- |
| \`{header:x-github-event}\` | the header, in any case |
| \`{/data/id}\` | the string or number at a JSON pointer of a body of at most a mebibyte; three pointers for each setting |
| \`{form:MessageSid}\` | the field of a body that is a form of at most 1,000 fields and 256 KiB |
| \`{claim:jti}\` | the claim of a JWT |

The first template whose values are all there is used. In an event type, \`/\`, \`:\` and spaces become dots, and other characters than
letters, digits, \`-\`, \`_\` and \`.\` become \`_\`: \`orders/create\` becomes \`orders.create\`. Without a value the event type is the name of the
provider, and the event has no id: it is stored each time it comes.

## A recorded request

An attacker who has recorded a genuine request can send it again. It is the same event, and stores nothing, while its id is signed and within the
replay window; it is refused where the provider signs a time and the tolerance is over. Otherwise it becomes a new message, of the same bytes:

| provider | a request that is sent again |
| --- | --- |
${providerNames.map((name) => `| [${providers[name].title}](#${anchorOf(providers[name].title)}) | ${providers[name].recorded} |`).join('\n')}
${providerNames.map(section).join('')}`
}

function section(name: ProviderName): string {
  const { title, description, steps, reference, secret, settings, accepted, note } = providers[name]
  const own = Object.entries(settings).filter(([key]) => !common.includes(key))
  const { eventType, eventId, replayWindowSeconds } = settings
  const ids = eventId?.fallback as readonly string[] | null | undefined
  return `
## ${title}

${description}${reference === undefined ? '' : ` See [its documentation](${reference}).`}

${steps.map((step, i) => `${i + 1}. ${step}`).join('\n')}

| | |
| --- | --- |
| secret | ${secretText(secret)} |
| event type | ${templatesText(eventType?.fallback as readonly string[])} |
| event id | ${ids == null ? 'none' : `${templatesText(ids)}, remembered for ${durationText(Number(replayWindowSeconds?.fallback))}`} |
| answer to a stored event | ${accepted === undefined ? '202 with the id of the message' : acceptedText(accepted)} |
${own.length === 0 ? '' : `\n| setting | values | default | flag | |\n| --- | --- | --- | --- | --- |\n${own.map(([key, setting]) => settingRow(key, setting, true)).join('\n')}\n`}${note === undefined ? '' : `\n${note}\n`}`
}

function secretText(secret: Provider['secret']): string {
  if (secret === undefined) return 'none'
  const origin = secret.origin === 'given' ? 'the provider gives it' : 'you choose it, or Sluice makes one'
  const form = secret.form === 'standard' ? ', `whsec_…` or a public key `whpk_…`' : ''
  const least = secret.least > 1 ? `, ${secret.least} characters or more` : ''
  return `**${secret.name}**${secret.required ? '' : ' (optional)'}: ${origin}${form}${least}`
}

function acceptedText({ status, headers, body }: NonNullable<Provider['accepted']>): string {
  return body === '' ? `${status} without a body` : `${status} with \`${body}\` as \`${headers['content-type']}\``
}

function templatesText(templates: readonly string[]): string {
  return templates.map((template) => `\`${template}\``).join(', else ')
}

function settingRow(
  key: string,
  { kind, fallback, required, sensitive, flag, description }: Setting,
  withDefault: boolean,
): string {
  const shown = required === true ? 'required' : fallback === null ? '' : `\`${JSON.stringify(fallback)}\``
  const secret = sensitive === true ? ' It is a secret: it is never shown again.' : ''
  const cells = [
    `\`${key}\``,
    settingValues(kind as SimpleForm),
    ...(withDefault ? [shown] : []),
    `\`${flag}\``,
    description + secret,
  ]
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

/** The values of a setting. A list holds templates, or words. */
function settingValues(form: SimpleForm): string {
  if (form.is !== 'list') return valuesOf(form)
  return form.of.is === 'choice' ? valuesOf(form.of) : `1 to ${form.max} templates`
}

function durationText(seconds: number): string {
  const days = seconds / 86_400
  return days >= 1 ? `${days} ${days === 1 ? 'day' : 'days'}` : `${seconds / 3600} hours`
}

function anchorOf(title: string): string {
  return title.toLowerCase().replaceAll(' ', '-')
}

function firstSentence(text: string): string {
  return text.slice(0, text.search(/\.( |$)/))
}

if (import.meta.main) writeFileSync(pagePath, sourceProvidersPage())
