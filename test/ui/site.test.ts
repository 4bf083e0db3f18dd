import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, test } from 'node:test'
import { buildUi } from '../../scripts/build-ui.ts'
import { type Entry, find, indexOf } from '../../ui/src/site/find.ts'

const dist = join(import.meta.dirname, '../../ui/dist')
const read = (path: string) => readFileSync(join(dist, path), 'utf8')

/** What a reader wants to do, in the words of a search, and the page that tells how. */
const tasks = {
  'verify signature python': '/docs/receivers',
  'rate limit': '/docs/flow-control',
  'retry after': '/docs/flow-control',
  'replay dead letters': '/docs/dead-letters',
  'move from svix': '/docs/svix',
  'client certificate': '/docs/endpoint-auth',
  backup: '/docs/backup',
  'helm chart': '/docs/kubernetes',
  prometheus: '/docs/monitoring',
  cron: '/docs/schedules',
  'github webhooks': '/docs/sources',
  'idempotency key': '/docs/api',
  'erase a person': '/docs/erasure',
  'slack alerts': '/docs/alerts',
}

describe('the pages of the documentation', () => {
  before(buildUi)

  test('are found by one search for each task', () => {
    const index = indexOf(JSON.parse(read('docs/search.json')) as Entry[])
    const missed = Object.entries(tasks).flatMap(([words, path]) => {
      const addresses = find(index, words).map(({ address }) => address.replace(/#.*/, ''))
      return addresses.includes(path) ? [] : [`${words}: ${addresses.join(' ')}`]
    })
    assert.deepEqual(missed, [])
  })

  test('have no dead link, within the site or to a heading', () => {
    const pages = globSync('docs/**/*.html', { cwd: dist })
    assert.ok(pages.length > 50)
    const idsOf = (path: string) => new Set([...read(path).matchAll(/ id="([^"]+)"/g)].map(([, id]) => id))
    const dead = pages.flatMap((page) =>
      [...read(page).matchAll(/(?:href|src)="(\/docs[^"]*|#[^"]*)"/g)].flatMap(([, target = '']) => {
        const [path = '', id] = target.split('#')
        if (path === '/docs/reference') return []
        const name = path === '' ? page : path === '/docs/' ? 'docs/index.html' : path.slice(1)
        const file = [name, `${name}.html`].find((each) => existsSync(join(dist, each)))
        const isThere = file !== undefined && (id === undefined || idsOf(file).has(decodeURIComponent(id)))
        return isThere ? [] : [`${page}: ${target}`]
      }),
    )
    assert.deepEqual(dead, [])
  })

  test('are listed in llms.txt, each as Markdown', () => {
    const listed = [...read('llms.txt').matchAll(/\]\((\/docs\/[^)]+\.md)\)/g)].map(([, path = '']) => path)
    const guides = globSync('docs/*.md', { cwd: dist }).map((name) => `/${name}`)
    const other = new Set(['/docs/index.md'])
    assert.deepEqual(
      guides.filter((path) => !other.has(path) && !listed.includes(path)),
      [],
    )
    for (const path of listed) assert.ok(existsSync(join(dist, path)), path)
  })
})
