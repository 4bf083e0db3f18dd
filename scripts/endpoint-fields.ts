import { writeFileSync } from 'node:fs'
import type { Form } from '../src/domain/field.ts'
import { applicationFields } from '../src/features/applications/noun.ts'
import { endpointFields, fieldEntries } from '../src/features/endpoints/noun.ts'

/** Writes docs/endpoint-fields.md from the table of endpoint fields: `node scripts/endpoint-fields.ts`. */
export const pagePath = new URL('../docs/endpoint-fields.md', import.meta.url)

export function endpointFieldsPage(): string {
  const rows = fieldEntries.map(([name, { kind, fallback, flag, description }]) => {
    const cells = [`\`${name}\``, valuesOf(kind), defaultOf(name, fallback), flag === undefined ? '' : `\`${flag}\``]
    return `| ${[...cells, description].map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  })
  return `# The fields of an endpoint

\`scripts/endpoint-fields.ts\` writes this page from \`src/features/endpoints/noun.ts\`. The fields belong to \`POST\`, \`PUT\` and \`PATCH\` of
\`/api/v1/app/{app}/endpoint\`, the flags to \`sluice endpoint create\` and \`update\`. [flow-control.md](flow-control.md),
[retry.md](retry.md) and [shaping.md](shaping.md) say what they do.

| field | values | default | flag | |
| --- | --- | --- | --- | --- |
${rows.join('\n')}

In a \`PATCH\`, null goes back to the default, except for ${listed(({ noNull }) => noNull === true)}, which stay as they are. A \`PUT\` sets absent fields to
their defaults, except ${listed(({ stays }) => stays === true)}, which stay. \`--disable\` and \`--enable\` set \`disabled\`, and
\`--unset FLAG\` sets null.

## Of an application, for all its endpoints

\`src/features/applications/noun.ts\` lists these. They belong to \`POST\`, \`PUT\` and \`PATCH\` of \`/api/v1/app\`, the flags to \`sluice app create\`
and \`update\`. Null and \`--unset FLAG\` go back to the default, and a \`PUT\` without a field does so, too.

| field | values | flag | |
| --- | --- | --- | --- |
${applicationRows().join('\n')}
`
}

function applicationRows(): string[] {
  return Object.entries(applicationFields).map(
    ([name, { kind, flag, description }]) => `| \`${name}\` | ${valuesOf(kind)} | \`${flag}\` | ${description} |`,
  )
}

function listed(isListed: (field: (typeof fieldEntries)[number][1]) => boolean): string {
  const names = fieldEntries.filter(([, field]) => isListed(field)).map(([name]) => `\`${name}\``)
  return `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
}

/** The values of a kind of field, as the tables of the docs name them. */
export function valuesOf(form: Form): string {
  switch (form.is) {
    case 'text':
      return form.max === undefined ? 'text' : `text, up to ${number(form.max)} characters`
    case 'display':
      return `text on one line, up to ${number(form.max)} characters`
    case 'name':
      return `letters, digits, \`-\`, \`_\`, \`.\`; up to ${form.max}, not \`.\` or \`..\``
    case 'uid':
      return `letters, digits, \`-\`, \`_\`, \`.\`; up to 256, not \`.\`, \`..\` or \`${form.prefix}_…\``
    case 'integer':
      return `${number(form.min)} to ${number(form.max)}`
    case 'duration':
      return `${number(form.min)} to ${number(form.max)} ${form.unit}`
    case 'choice':
      return form.words.map((word) => `\`${word}\``).join(', ')
    case 'boolean':
      return '`true`, `false`'
    case 'list':
      return `1 to ${number(form.max)} texts`
    case 'instant':
      return 'RFC 3339'
    case 'labels':
    case 'headers':
      return 'text by name'
    case 'object':
      return 'object'
  }
}

function number(value: number): string {
  return value.toLocaleString('en-US')
}

function defaultOf(name: keyof typeof endpointFields, fallback: unknown): string {
  return 'required' in endpointFields[name] ? 'required' : `\`${JSON.stringify(fallback)}\``
}

if (import.meta.main) writeFileSync(pagePath, endpointFieldsPage())
