import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { sectionOf, variableOf } from '../../src/runtime/setting-names.ts'
import { type Setting, settingNames, settings } from '../../src/runtime/settings.ts'
import { readPage, readPages, root } from './pages.ts'

const path = 'docs/settings.md'
const head = '| setting | default | meaning |\n| --- | --- | --- |\n'

/** The table as the settings themselves give it. */
function table(): string {
  let section = ''
  const rows = settingNames.map((name) => {
    const { fallback, kind, help } = settings[name] as Setting<unknown>
    const shown = fallback === null ? '–' : `\`${kind.show(fallback as NonNullable<unknown>)}\``
    const heading = sectionOf[name] === section ? '' : `| **${sectionOf[name]}** | | |\n`
    section = sectionOf[name]
    return `${heading}| \`${name}\` | ${shown} | ${help.replaceAll('|', '\\|')} |\n`
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

const units: Readonly<Record<string, number>> = {
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  ms: 1,
  s: 1000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

/** The figures of a cell: `4 KiB/s` is 4096, `2, 10, 50 million` are three, and `off` is 0. */
function figuresIn(cell: string): number[] {
  const factor = cell.endsWith(' million') ? 1_000_000 : 1
  const plain = cell.replace(/(\d),(?=\d{3}\b)/g, '$1').replace(/\b(off|any)\b/g, '0')
  return [...plain.matchAll(/(\d+(?:\.\d+)?)(?: (KiB|MiB|ms|s|min|h|d)\b)?/g)].map(
    ([, n, unit]) => Number(n) * factor * (units[unit ?? ''] ?? 1),
  )
}

/** The row of these settings has shares of them. */
const shares = ['inFlight']

/** The rows of tables with the columns `setting` and `default`: the settings in their order, and the figures. */
function defaultsIn(prose: string) {
  return prose.split('\n\n').flatMap((part) => {
    const [head = [], , ...rows] = part.split('\n').map((line) => line.split(/ ?\| ?/))
    const [settingAt, defaultAt] = [head.indexOf('setting'), head.indexOf('default')]
    if (settingAt < 0 || defaultAt < 0) return []
    return rows.map((cells) => {
      const named = [...(cells[settingAt] ?? '').matchAll(/`(\w+)`/g)].map(([, name]) => name)
      const names = named.flatMap((name) => settingNames.filter((known) => known === name && !shares.includes(known)))
      return { row: cells.join(' | '), names, figures: figuresIn(cells[defaultAt] ?? '') }
    })
  })
}

for (const page of ['docs/limits.md', 'docs/security.md']) {
  test(`the defaults in ${page} are those of the settings`, () => {
    const rows = defaultsIn(readPage(page).prose)
    assert.ok(rows.filter(({ names }) => names.length > 0).length > 10)
    const wrong = rows.flatMap(({ row, names, figures }) => {
      // A row may have figures beside those of its settings.
      const left = [...figures]
      const isShown = (value: number) => {
        while (left.length > 0) if (left.shift() === value) return true
        return false
      }
      return names.flatMap((name) => (isShown(Number(settings[name].fallback)) ? [] : [`${name}: ${row}`]))
    })
    assert.deepEqual(wrong, [])
  })
}
