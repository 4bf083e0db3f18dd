import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { buildUi } from '../../scripts/build-ui.ts'

const dist = join(import.meta.dirname, '../../ui/dist')
const limitBytes = 120_000

describe('the built pages', () => {
  before(buildUi)

  test('have at most 120 kB of JavaScript in all, compressed', (t) => {
    const sizes = globSync('**/*.js', { cwd: dist }).map(
      (name) => [name, gzipSync(readFileSync(join(dist, name)), { level: 9 }).length] as const,
    )
    const total = sizes.reduce((sum, [, size]) => sum + size, 0)
    t.diagnostic(`${total} bytes: ${sizes.map(([name, size]) => `${name} ${size}`).join(', ')}`)
    assert.ok(total > 0 && total <= limitBytes, `${total} bytes`)
  })

  test('have no script or style within their HTML, and name nothing of another origin', () => {
    const pages = globSync('**/*.html', { cwd: dist })
    assert.ok(pages.length > 50)
    for (const name of pages) {
      // Code that a page shows is text.
      const html = readFileSync(join(dist, name), 'utf8').replace(
        /<code>[^<]*(?:<span[^>]*>[^<]*<\/span>[^<]*)*<\/code>/g,
        '',
      )
      assert.doesNotMatch(html, /<script(?![^>]*\bsrc=)/, name)
      assert.doesNotMatch(html, /<style|\bstyle=|\bon\w+=/, name)
      // A page of the documentation has links to others, and loads nothing of them.
      assert.doesNotMatch(html, /src="(?:https?:)?\/\/|<link[^>]*href="(?:https?:)?\/\//, name)
    }
  })
})

test('no page turns text into HTML', () => {
  const sources = globSync('**/*.{ts,tsx}', { cwd: join(dist, '../src') })
  assert.ok(sources.length > 30)
  for (const name of sources) {
    const text = readFileSync(join(dist, '../src', name), 'utf8')
    assert.doesNotMatch(text, /dangerouslySetInnerHTML|innerHTML|insertAdjacentHTML|document\.write/, name)
  }
})
