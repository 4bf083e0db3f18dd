import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { newDatabase } from '../store/postgres-harness.ts'
import { openWorld, skip } from './dashboard.ts'

const stores = { SQLite: async () => 'sqlite::memory:', Postgres: newDatabase }

for (const [name, newStore] of Object.entries(stores)) {
  describe(`the pages of the dashboard on ${name}`, { skip }, () => {
    // How a page looks does not depend on the store: axe-core looks at it on SQLite alone.
    const looks = name === 'SQLite' ? ', accessible, in light and dark' : ''
    test(`open without a message in the console, wide and narrow${looks}`, async (t) => {
      const { url, signedIn, app, main, message, ask } = await openWorld(t, await newStore())
      const source = await ask('POST', '/app/acme/source', { provider: 'stripe' })
      await ask('POST', '/view', { name: 'Dead trends', of: 'dead-letters', eventTypes: ['video.*'] })
      const { data: schedules } = await ask('GET', '/schedule')
      /** Each path, with a text that shows when the page has its data. */
      const pages: Readonly<Record<string, string>> = {
        '/': 'Needs attention',
        '/endpoints': '/main',
        '/endpoints?sort=waiting': '/paused',
        '/endpoints?sort=failing': '/broken',
        '/applications': 'Acme <b>Video</b>',
        [`/app/${app.id}`]: '/main',
        [`/app/${app.id}?view=messages`]: 'order-7',
        [`/app/${app.id}?view=settings`]: 'Save changes',
        [`/app/${app.id}/endpoint/${main.id}`]: 'video.trending',
        [`/app/${app.id}/endpoint/${main.id}?view=settings`]: 'Save changes',
        [`/app/${app.id}/msg/${message.id}`]: '<script>alert(1)</script>',
        [`/app/${app.id}/schedule/${schedules[0].id}`]: 'Next runs',
        '/dead': 'video.trending',
        '/alerts': 'No silence',
        '/views': 'Dead trends',
        '/dead?type=video.trending&since=7200': 'Last 2 h',
        '/workers': 'Alive',
        '/sources': 'No secret',
        [`/app/${app.id}/source/${source.id}`]: 'Acme <b>Video</b>',
        '/schedules': 'daily',
        '/tasks': 'No tasks yet',
        '/event-types': 'video.trending',
        '/event-types/video.trending': 'version 1',
        '/keys': 'Sessions',
        '/audit': 'POST /app/:app/endpoint',
        '/operational-webhooks': 'No endpoints yet',
        '/settings': 'SLUICE_STORE',
        '/nowhere': 'There is no such page',
      }
      const page = await signedIn()
      for (const [path, text] of Object.entries(pages)) {
        await page.goto(`${url}${path}`)
        await page.sees(text)
        const checks = name === 'SQLite' ? 'layout and axe' : 'layout'
        assert.deepEqual(await page.problems(checks), [], path)
        assert.deepEqual(page.complaints, [], path)
      }
    })
  })
}
