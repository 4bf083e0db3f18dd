import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { type Setting, settingNames, settings, variableOf } from '../../src/runtime/settings.ts'
import { readPage, readPages, root } from './pages.ts'

const path = 'docs/settings.md'
const head = '| setting | default | meaning |\n| --- | --- | --- |\n'

/** The table as the settings themselves give it. */
function table(): string {
  const rows = settingNames.map((name) => {
    const { fallback, kind, help } = settings[name] as Setting<unknown>
    const shown = fallback === null ? '–' : `\`${kind.show(fallback as NonNullable<unknown>)}\``
    return `| \`${name}\` | ${shown} | ${help.replaceAll('|', '\\|')} |\n`
  })
  return head + rows.join('')
}

// UPDATE_DOCS=1 writes the table.
test('settings.md lists every setting with its default and help', () => {
  const { text } = readPage(path)
  const start = text.indexOf(head)
  const end = text.indexOf('\n\n', start) + 1
  const updated = text.slice(0, start) + table() + text.slice(end)
  if (process.env.UPDATE_DOCS === '1') writeFileSync(join(root, path), updated)
  else assert.equal(text, updated, 'run UPDATE_DOCS=1 npx node --test test/docs/settings.test.ts')
})

test('defaults beside a variable in other tables are those of the settings', () => {
  const defaults = new Map(
    settingNames.map((name) => {
      const { fallback, kind } = settings[name] as Setting<unknown>
      return [variableOf(name), fallback === null ? undefined : kind.show(fallback as NonNullable<unknown>)]
    }),
  )
  const rows = readPages().flatMap(({ path: page, prose }) =>
    [...prose.matchAll(/^\| `(SLUICE_\w+)` \| ([^|]+) \|/gm)].map(([, variable = '', shown = '']) => ({
      page,
      variable,
      shown: shown.replace(/[`,]/g, ''),
    })),
  )
  assert.ok(rows.length > 3)
  assert.deepEqual(
    rows.filter(({ variable, shown }) => shown !== defaults.get(variable)),
    [],
  )
})
